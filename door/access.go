package door

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/raysys/raysys/internal/thishost"
)

// local is the caller where a door answers this host alone.
const local = "local"

// identify returns who asks for the work, or a problem.
func identify(x *request, w Work) (string, error) {
	if x.cross.Check(x.r) != nil {
		return "", refusal(http.StatusForbidden, "forbidden", "a page of another origin asks")
	}
	if x.who == nil {
		if why := elsewhere(x.r); why != "" {
			return "", refusal(http.StatusForbidden, "forbidden", why)
		}
		return local, nil
	}
	var bad *badTokens
	caller, err := x.who(x.r, w)
	switch {
	case errors.Is(err, ErrForbidden):
		return "", refusal(http.StatusForbidden, "forbidden", "you may not do this")
	case errors.As(err, &bad):
		if !bad.said.Swap(true) {
			x.node.Log().Error("the door lets nobody in", "error", err)
		}
		return "", refusal(http.StatusServiceUnavailable, "unavailable", "who you are cannot be found out for now")
	case err != nil || caller == "" || len(caller) > maxCaller:
		return "", refusal(http.StatusUnauthorized, "unauthorized", "who you are is not known")
	}
	return caller, nil
}

// allowed are the marks that the caller may call, one or more.
func allowed(x *request) (list []*mark, err error) {
	err = refusal(missing, "not-found", "nothing may be called")
	for _, m := range x.order {
		if caller, no := identify(x, m.Work); no != nil {
			err = no
		} else {
			list, x.caller = append(list, m), caller
		}
	}
	if len(list) > 0 {
		err = nil
	}
	return list, err
}

// elsewhere says why a request may be of another host.
func elsewhere(r *http.Request) string {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	proxy, strange := thishost.Signs(r, "localhost")
	switch {
	case at == nil || !at.IP.IsLoopback():
		return "only this host is answered, at an address of loopback: others need door.Callers"
	case proxy != "":
		return fmt.Sprintf("the header %.100s is of a proxy: others than this host need door.Callers", proxy)
	case strange != "":
		return fmt.Sprintf("this is not known as %.100q: ask for localhost, 127.0.0.1 or [::1]", strange)
	}
	return ""
}

const (
	leastToken   = 16      // characters
	maxTokenFile = 1 << 20 // bytes
)

// badTokens says that the file of Tokens cannot be read. There is one for each state of the file.
type badTokens struct {
	error
	said atomic.Bool // in the node's log
}

// Unwrap is for errors.Is.
func (b *badTokens) Unwrap() error { return b.error }

// Tokens is a Who that knows callers by the header "Authorization: Bearer TOKEN". The file has lines of NAME TOKEN;
// empty ones, and those that begin with #, are left out. A token has 16 printable characters of ASCII or more, and one
// name; a name may have several. Nobody but the owner may read the file (0600). It is read again when it has changed.
// While something is wrong with it nobody is let in, and the log of the node says once what.
func Tokens(file string) (Who, error) {
	t := &tokens{file: file}
	if _, err := t.current(); err != nil {
		return nil, err
	}
	return t.who, nil
}

// tokens are those of a file.
type tokens struct {
	file string
	mu   sync.Mutex // guards the rest
	was  fs.FileInfo
	list map[[sha256.Size]byte]string // the callers, by the sums of their tokens
	bad  *badTokens                   // nil where list is right
}

func (t *tokens) who(r *http.Request, _ Work) (caller string, err error) {
	list, err := t.current()
	if err != nil {
		return "", err
	}
	scheme, text, _ := strings.Cut(strings.Join(r.Header["Authorization"], "\n"), " ") // no token has a line end
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	err = errors.New("no such token")
	for is, name := range list { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(sum[:], is[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			caller, err = name, nil
		}
	}
	return caller, err
}

// current is what the file says now.
func (t *tokens) current() (map[[sha256.Size]byte]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is, err := os.Stat(t.file)
	same := err == nil && t.was != nil && os.SameFile(is, t.was) && is.ModTime().Equal(t.was.ModTime()) &&
		is.Size() == t.was.Size() && is.Mode() == t.was.Mode()
	if same && t.bad == nil {
		return t.list, nil
	}
	t.was = is
	if err == nil {
		t.list, err = readTokens(t.file)
	}
	if err == nil {
		t.bad = nil
		return t.list, nil
	}
	if err = fmt.Errorf("door.Tokens: %w", err); t.bad == nil || t.bad.Error() != err.Error() || is != nil && !same {
		t.bad = &badTokens{error: err}
	}
	return nil, t.bad
}

// readTokens reads a file. No error has a token.
func readTokens(file string) (map[[sha256.Size]byte]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if is, err := f.Stat(); err != nil || runtime.GOOS != "windows" && is.Mode().Perm()&0o077 != 0 {
		return nil, cmp.Or(err, fmt.Errorf("others may read or write %s: take that away (chmod 600)", file))
	}
	list, lines := map[[sha256.Size]byte]string{}, bufio.NewScanner(io.LimitReader(f, maxTokenFile))
	for n := 1; lines.Scan(); n++ {
		parts := strings.Fields(lines.Text())
		if len(parts) == 0 || parts[0][0] == '#' {
			continue
		}
		if len(parts) != 2 || len(parts[0]) > maxCaller || len(parts[1]) < leastToken ||
			strings.IndexFunc(parts[1], unsent) >= 0 {
			return nil, fmt.Errorf("%s: line %d: give NAME TOKEN, of up to %d bytes and of %d or more of ASCII",
				file, n, maxCaller, leastToken)
		}
		sum := sha256.Sum256([]byte(parts[1]))
		if list[sum] != "" {
			return nil, fmt.Errorf("%s: line %d: its token is that of another line", file, n)
		}
		list[sum] = parts[0]
	}
	return list, lines.Err()
}

// unsent reports whether a header cannot have the character.
func unsent(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }
