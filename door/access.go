package door

import (
	"bufio"
	"bytes"
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
	"unicode"

	"github.com/raysys/raysys/internal/thishost"
)

// local is the caller where a door answers this host alone.
const local = "local"

// identify returns who asks for the work, or a problem.
func identify(x *request, w Work) (string, error) {
	if x.who == nil {
		if why := elsewhere(x.r); why != "" {
			return "", refusal(http.StatusForbidden, "forbidden", why)
		}
		return local, nil
	}
	caller, err := x.who(x.r, w)
	switch {
	case errors.Is(err, ErrForbidden):
		return "", refusal(http.StatusForbidden, "forbidden", "you may not do this")
	case errors.Is(err, errTokens):
		x.node.Log().Error("the door lets nobody in", "error", err)
		return "", refusal(http.StatusServiceUnavailable, "unavailable", "who you are cannot be found out for now")
	case err != nil || caller == "" || len(caller) > maxCaller:
		return "", refusal(http.StatusUnauthorized, "unauthorized", "who you are is not known")
	}
	return caller, nil
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

// errTokens says that the file of Tokens cannot be read.
var errTokens = errors.New("door.Tokens")

// Tokens is a Who that knows callers by the header "Authorization: Bearer TOKEN". The file has lines of NAME TOKEN;
// empty ones, and those that begin with #, are left out. A token has 16 printable characters of ASCII or more, and one
// name; a name may have several. Nobody but the owner may read the file (0600). It is read again when it has changed.
// While something is wrong with it nobody is let in, and the node's log says what.
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
	list []token
}

type token struct {
	caller string
	sha256 [32]byte
}

var errToken = errors.New("no such token")

func (t *tokens) who(r *http.Request, _ Work) (caller string, err error) {
	list, err := t.current()
	if err != nil {
		return "", err
	}
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return "", errToken
	}
	scheme, text, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errToken
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	err = errToken
	for i := range list { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(sum[:], list[i].sha256[:]) == 1 {
			caller, err = list[i].caller, nil
		}
	}
	return caller, err
}

// current is what the file says now.
func (t *tokens) current() ([]token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is, err := os.Stat(t.file)
	if err == nil && t.was != nil && os.SameFile(is, t.was) && is.ModTime().Equal(t.was.ModTime()) &&
		is.Size() == t.was.Size() && is.Mode() == t.was.Mode() {
		return t.list, nil
	}
	t.was, t.list = nil, nil
	if is, t.list, err = readTokenFile(t.file); err != nil {
		return nil, fmt.Errorf("%w: %w", errTokens, err)
	}
	t.was = is
	return t.list, nil
}

func readTokenFile(file string) (is fs.FileInfo, list []token, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if is, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if runtime.GOOS != "windows" && is.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("others may read or write %s: take that away (chmod 600)", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return nil, nil, err
	}
	if list, err = readTokens(text); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return is, list, nil
}

// readTokens reads the lines of a file. No error has a token.
func readTokens(text []byte) (list []token, err error) {
	lines, seen := bufio.NewScanner(bytes.NewReader(text)), map[[32]byte]bool{}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Fields(line)
		if len(parts) != 2 || len(parts[0]) > maxCaller || len(parts[1]) < leastToken ||
			strings.IndexFunc(parts[1], unsent) >= 0 {
			return nil, fmt.Errorf("line %d: give NAME TOKEN, of up to %d bytes and of %d printable characters or more",
				n, maxCaller, leastToken)
		}
		sum := sha256.Sum256([]byte(parts[1]))
		if seen[sum] {
			return nil, fmt.Errorf("line %d: its token is that of another line", n)
		}
		seen[sum] = true
		list = append(list, token{parts[0], sum})
	}
	return list, lines.Err()
}

// unsent reports whether a header cannot have the character.
func unsent(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }
