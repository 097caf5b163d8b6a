package link_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// tlsFiles are those of one node, which a test replaces.
type tlsFiles struct {
	t             testing.TB
	cert, key, ca string
}

// files writes those of a node with a certificate of a, which trusts a.
func (a *authority) files(node string) *tlsFiles {
	dir := a.t.TempDir()
	f := &tlsFiles{a.t, filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")}
	f.certify(a, "raysys://test/"+node)
	f.trust(a)
	return f
}

// certify replaces certificate and key.
func (f *tlsFiles) certify(a *authority, uri string) {
	f.t.Helper()
	cert, key := a.issue("next", uri)
	f.replace(f.cert, cert)
	f.replace(f.key, key)
}

// trust replaces the CA file.
func (f *tlsFiles) trust(all ...*authority) {
	f.t.Helper()
	from := make([]string, len(all))
	for i, a := range all {
		from[i] = a.CA
	}
	f.replace(f.ca, from...)
}

// replace writes a file from others.
func (f *tlsFiles) replace(path string, from ...string) {
	f.t.Helper()
	var all []byte
	for _, name := range from {
		data, err := os.ReadFile(name)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, data...)
	}
	if err := os.WriteFile(path, all, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *tlsFiles) load() *link.TLS {
	f.t.Helper()
	t, err := link.LoadTLS(f.cert, f.key, f.ca)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

// use reloads the files, which must have changed.
func (f *tlsFiles) use(t *link.TLS) {
	f.t.Helper()
	next, err := t.Reload()
	if next == nil || err != nil {
		f.t.Fatal("new files are not seen: ", err)
	}
	t.Use(next)
}

// TestReload: each handshake after Use shows the new certificate, on both sides, and sessions go on.
func TestReload(t *testing.T) {
	ca := newAuthority(t)
	files := ca.files("b")
	transport := files.load()
	a, b := open(t, "a", ca.transport("a", "raysys://test/a")), open(t, "b", transport)
	old := a.connect(b)
	if next, err := transport.Reload(); next != nil || err != nil {
		t.Errorf("the same files are %v, %v", next, err)
	}
	before := link.KeyFingerprint(old.Certificate())
	files.certify(ca, "raysys://test/b")
	next, err := transport.Reload()
	if err != nil {
		t.Fatal(err)
	}
	after := link.KeyFingerprint(next.Certificate())
	asks := ca.transport("c", "raysys://test/c").(*link.TLS)
	shown := func() string {
		chain, err := asks.Ask(t.Context(), b.Addr(), "test", "b")
		if err != nil {
			t.Fatal(err)
		}
		return link.KeyFingerprint(chain[0])
	}
	if shown() != before || before == after {
		t.Error("the new certificate is shown before it is used")
	}
	transport.Use(next)
	if shown() != after {
		t.Error("the new certificate is not shown by the node that is dialled")
	}
	if err := old.Send(wire.Requests, kindEcho, []byte("still")); err != nil {
		t.Error(err)
	}
	old.Flush()
	a.expect("b replies: still")
	d := open(t, "d", ca.transport("d", "raysys://test/d"))
	b.connect(d)
	d.expect("up b(")
	if got := link.KeyFingerprint(d.Peer("b").Certificate()); got != after {
		t.Error("the new certificate is not shown by the node that dials")
	}
	if next, err := transport.Reload(); next != nil || err != nil {
		t.Errorf("the files in use are %v, %v", next, err)
	}
	if _, err := asks.Ask(t.Context(), b.Addr(), "test", "x"); err == nil {
		t.Error("b's certificate passes for x's")
	}
}

// TestReloadErrors: what cannot be used is refused with a reason, as long as the files are like that.
func TestReloadErrors(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	files := ca.files("a")
	transport := files.load()
	in := transport.Credentials()
	cert, key := ca.issue("new", "raysys://test/a")
	foreign, foreignKey := ca.issue("foreign", "raysys://test/b")
	elsewhere, elsewhereKey := ca.issue("elsewhere", "raysys://else/a")
	cut := filepath.Join(t.TempDir(), "cut")
	both, err := os.ReadFile(other.CA)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(ca.CA)
	if err := os.WriteFile(cut, append(first, both[:len(both)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ cert, key, ca, text string }{
		"the key of the old one":  {cert, files.key, ca.CA, "private key does not match"},
		"no certificate yet":      {empty, key, ca.CA, "failed to find any PEM data"},
		"another node":            {foreign, foreignKey, ca.CA, "it is of node b in cluster test, the one in use of node a in cluster test"},
		"another cluster":         {elsewhere, elsewhereKey, ca.CA, "it is of node a in cluster else"},
		"a CA that is cut off":    {cert, key, cut, "cut off"},
		"an empty CA":             {cert, key, empty, "there is no certificate in it"},
		"a CA that is not its":    {cert, key, other.CA, "does not verify it"},
		"the CA before the other": {files.cert, files.key, other.CA, "does not verify it"},
	} {
		work := ca.files("a")
		work.replace(work.cert, files.cert)
		work.replace(work.key, files.key)
		transport := work.load()
		in := transport.Credentials()
		work.replace(work.cert, c.cert)
		work.replace(work.key, c.key)
		work.replace(work.ca, c.ca)
		for range 2 {
			if next, err := transport.Reload(); next != nil || err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: want %q in %v", name, c.text, err)
			}
		}
		if transport.Credentials() != in {
			t.Errorf("%s: it is used", name)
		}
	}
	ca.valid = [2]time.Duration{-2 * time.Hour, -time.Minute}
	files.certify(ca, "raysys://test/a")
	if _, err := transport.Reload(); err == nil || !strings.Contains(err.Error(), "it expired on") {
		t.Errorf("an expired one: %v", err)
	}
	if transport.Credentials() != in {
		t.Error("it is used")
	}
}

// TestCATakenOut: a CA file may have several, and a peer of one that is taken out is known by its session.
func TestCATakenOut(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	fa, fb := old.files("a"), old.files("b")
	ta, tb := fa.load(), fb.load()
	a, b := open(t, "a", ta), open(t, "b", tb)
	p := a.connect(b)
	for _, f := range []*tlsFiles{fa, fb} {
		f.trust(old, next)
	}
	fa.use(ta)
	fb.use(tb)
	fa.certify(next, "raysys://test/a")
	fa.use(ta)
	c := open(t, "c", fb.load())
	if _, err := c.Connect(t.Context(), "a", a.Addr()); err == nil || strings.Contains(err.Error(), "tls") {
		t.Errorf("a node that trusts both refuses the certificate of the new one: %v", err) // b's certificate is not c's
	}
	if ta.Distrusts(p) {
		t.Error("the session with b is not trusted while the file has its CA")
	}
	fa.trust(next)
	fa.use(ta)
	if !ta.Distrusts(p) {
		t.Error("the session with b is trusted without its CA")
	}
	if tb.Distrusts(b.Peer("a")) {
		t.Error("b trusts both, and not a")
	}
	if _, err := ta.Ask(t.Context(), b.Addr(), "test", "b"); err == nil {
		t.Error("b's certificate is verified without its CA")
	}
	fb.certify(next, "raysys://test/b")
	fb.use(tb)
	chain, err := ta.Ask(t.Context(), b.Addr(), "test", "b")
	if err != nil {
		t.Fatal(err)
	}
	if p.Proved(chain); ta.Distrusts(p) {
		t.Error("the session with b is not trusted though b has a new certificate")
	}
}
