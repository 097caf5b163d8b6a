package link_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// authority signs certificates for a test.
type authority struct {
	*certs.Authority
	t     testing.TB
	valid [2]time.Duration // of what it issues, from now
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a, err := certs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &authority{a, t, [2]time.Duration{-time.Hour, time.Hour}}
}

// issue returns the files of a certificate with these URIs.
func (a *authority) issue(name string, uris ...string) (cert, key string) {
	a.t.Helper()
	cert, key, err := a.Issue(name, time.Now().Add(a.valid[0]), time.Now().Add(a.valid[1]), uris...)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) transport(name string, uris ...string) link.Transport {
	a.t.Helper()
	return a.trusting(a, name, uris...)
}

// trusting is transport with trust in another authority.
func (a *authority) trusting(other *authority, name string, uris ...string) link.Transport {
	a.t.Helper()
	cert, key := a.issue(name, uris...)
	t, err := link.LoadUnverified(cert, key, other.CA)
	if err != nil {
		a.t.Fatal(err)
	}
	return t
}

// TestTLS: what works on plain connections works on these, and Admit sees the certificate with its roles.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	roles := make(chan string, 4)
	admit := func(c *link.Config) {
		c.Admit = func(_ context.Context, who link.Identity, cert *x509.Certificate) error {
			name, err := link.NameOf(cert)
			if err != nil {
				return err
			}
			roles <- name.String() + " " + strings.Join(name.Roles, ",")
			return nil
		}
	}
	a := open(t, "a", ca.transport("a", "raysys://test/a?role=worker&role=driver", "https://elsewhere/x"), admit)
	b := open(t, "b", ca.transport("b", "raysys://test/b?role=driver"), admit)
	p := a.connect(b)
	for _, want := range []string{"raysys://test/a?role=worker&role=driver worker,driver", "raysys://test/b?role=driver driver"} {
		one, two := <-roles, ""
		if one != want {
			two = <-roles
			roles <- one
		}
		if one != want && two != want {
			t.Errorf("Admit saw %q and %q, want %q", one, two, want)
		}
	}
	own := b.transport.(*link.TLS).Credentials().Certificate()
	if p.Certificate().Subject.CommonName != "b" || link.KeyFingerprint(p.Certificate()) != link.KeyFingerprint(own) || len(link.KeyFingerprint(own)) != 64 {
		t.Error(p.Certificate().Subject, link.KeyFingerprint(own))
	}
	if link.KeyFingerprint(own) == link.KeyFingerprint(a.transport.(*link.TLS).Credentials().Certificate()) {
		t.Error("two keys with one fingerprint")
	}
	for range 200 {
		if err := p.Send(wire.Requests, kindEcho, []byte(strings.Repeat("x", 20_000))); err != nil {
			t.Fatal(err)
		}
	}
	p.Send(wire.Requests, kindEcho, []byte("end"))
	p.Flush()
	p.SendBulk(kindNote, make([]byte, 4<<20))
	a.expect("b replies: end")
	b.expect("a bulk: 4194304 bytes")
	p.Close(errors.New("enough"))
	b.expect("down a(1): closed by the peer: enough")
}

// TestImpostors: a certificate of the right CA is not enough, it must be that node's (rule C18).
func TestImpostors(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	b := open(t, "b", ca.transport("b", "raysys://test/b"))
	for _, c := range []struct {
		name      string
		transport link.Transport
		text      string
		code      error
	}{
		{"of another node", ca.transport("c", "raysys://test/c"), "the certificate is of node c in cluster test, the handshake says node a in cluster test", link.CodeIdentity},
		{"of another cluster", ca.transport("o", "raysys://other/a"), "the certificate is of node a in cluster other", link.CodeIdentity},
		{"of another CA", foreign.trusting(ca, "f", "raysys://test/a"), "certificate", nil},
		{"which trusts another CA", ca.trusting(foreign, "g", "raysys://test/a"), "certificate", nil},
		{"none", link.TCP(link.TCPConfig{}), "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := open(t, "a", c.transport)
			_, err := a.Connect(t.Context(), "b", b.Addr())
			if err == nil || !strings.Contains(err.Error(), c.text) || c.code != nil && !errors.Is(err, c.code) {
				t.Error(err)
			}
			if _, err = b.Connect(t.Context(), "a", a.Addr()); err == nil || c.code != nil && !errors.Is(err, c.code) {
				t.Error(err)
			}
		})
	}
	if b.count("up") != 0 {
		t.Error(b.lines())
	}
}

// TestImpostorOfTheServer: the node that answers is checked like the one that asks.
func TestImpostorOfTheServer(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, "a", ca.transport("a", "raysys://test/a"))
	liar := open(t, "b", ca.transport("c", "raysys://test/c")) // has c's certificate and says it is b
	_, err := a.Connect(t.Context(), "b", liar.Addr())
	if !errors.Is(err, link.CodeIdentity) {
		t.Error(err)
	}
	liar.expect("rejected a: handshake rejected: peer says wrong certificate")
}

// TestOwnCertificate: a node does not start with a certificate that its own CA does not verify now.
func TestOwnCertificate(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	valid := ca.valid
	load := func(ca, trusted *authority) error {
		cert, key := ca.issue("a", "raysys://test/a")
		_, err := link.LoadTLS(cert, key, trusted.CA)
		return err
	}
	if err := load(ca, ca); err != nil {
		t.Errorf("a good one: %v", err)
	}
	if err := load(foreign, ca); err == nil || !strings.Contains(err.Error(), "unknown authority") || !strings.Contains(err.Error(), "a.crt") {
		t.Errorf("one of another CA is accepted, or refused without a reason: %v", err)
	}
	ca.valid = [2]time.Duration{-2 * time.Hour, -time.Minute}
	if err := load(ca, ca); err == nil || !strings.Contains(err.Error(), "it expired on") {
		t.Errorf("an expired one is accepted, or refused without a reason: %v", err)
	}
	ca.valid = [2]time.Duration{time.Minute, time.Hour}
	if err := load(ca, ca); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("one of tomorrow is accepted, or refused without a reason: %v", err)
	}
	ca.valid = valid
}

func TestLoadTLSErrors(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue("a", "raysys://test/a")
	_, otherKey := ca.issue("b", "raysys://test/b")
	nameless, namelessKey := ca.issue("n", "https://test/a")
	twice, twiceKey := ca.issue("t", "raysys://test/a", "raysys://test/b")
	root, none := ca.CA, filepath.Join(t.TempDir(), "none.pem")
	for _, c := range []struct{ cert, key, ca, text string }{
		{none, key, root, "none.pem"},
		{cert, otherKey, root, "b.key"},
		{nameless, namelessKey, root, "raysys://CLUSTER/NODE"},
		{twice, twiceKey, root, "2 names"},
		{cert, key, none, "none.pem"},
		{cert, key, key, "there is no certificate in it"},
	} {
		if _, err := link.LoadTLS(c.cert, c.key, c.ca); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("want %q in %v", c.text, err)
		}
	}
}

// TestPlainBeyondLoopback is refused with what to do, and allowed when that is said.
func TestPlainBeyondLoopback(t *testing.T) {
	_, err := link.TCP(link.TCPConfig{}).Listen(t.Context(), ":0")
	if err == nil || !strings.Contains(err.Error(), "--insecure") || !strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
	ln, err := link.TCP(link.TCPConfig{Insecure: true}).Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, host := range outside(t) {
		addr := net.JoinHostPort(host, ln.Addr().String()[strings.LastIndexByte(ln.Addr().String(), ':')+1:])
		if _, err := link.TCP(link.TCPConfig{}).Dial(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "--insecure") {
			t.Error(addr, err)
		}
		conn, err := link.TCP(link.TCPConfig{Insecure: true}).Dial(t.Context(), addr)
		if err != nil {
			t.Error(err)
			continue
		}
		conn.Close()
	}
}

// outside returns an address of this machine that is no loopback one, if it has one.
func outside(t *testing.T) []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return []string{ip.IP.String()}
		}
	}
	return nil
}
