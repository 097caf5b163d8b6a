package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// authority signs certificates for a test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	valid [2]time.Duration // of what it issues, from now
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), key: newKey(t), valid: [2]time.Duration{-time.Hour, time.Hour}}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue returns the files of a certificate with these URIs.
func (a *authority) issue(name string, uris ...string) (cert, key string) {
	a.t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(a.valid[0]), NotAfter: time.Now().Add(a.valid[1]),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			a.t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	k := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", secret)
}

func (a *authority) transport(name string, uris ...string) link.Transport {
	a.t.Helper()
	return a.trusting(a, name, uris...)
}

// trusting is transport with trust in another authority.
func (a *authority) trusting(other *authority, name string, uris ...string) link.Transport {
	a.t.Helper()
	cert, key := a.issue(name, uris...)
	t, err := link.LoadUnverified(cert, key, filepath.Join(other.dir, "ca.pem"))
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
	a := open(t, "a", ca.transport("a", "raysys://test/a?role=worker&role=admin", "https://elsewhere/x"), admit)
	b := open(t, "b", ca.transport("b", "raysys://test/b?role=driver"), admit)
	p := a.connect(b)
	for _, want := range []string{"raysys://test/a?role=worker&role=admin worker,admin", "raysys://test/b?role=driver driver"} {
		one, two := <-roles, ""
		if one != want {
			two = <-roles
			roles <- one
		}
		if one != want && two != want {
			t.Errorf("Admit saw %q and %q, want %q", one, two, want)
		}
	}
	own := b.transport.(*link.TLS).Certificate()
	if p.Certificate().Subject.CommonName != "b" || link.KeyFingerprint(p.Certificate()) != link.KeyFingerprint(own) || len(link.KeyFingerprint(own)) != 64 {
		t.Error(p.Certificate().Subject, link.KeyFingerprint(own))
	}
	if link.KeyFingerprint(own) == link.KeyFingerprint(a.transport.(*link.TLS).Certificate()) {
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
		_, err := link.LoadTLS(cert, key, filepath.Join(trusted.dir, "ca.pem"))
		return err
	}
	if err := load(ca, ca); err != nil {
		t.Errorf("a good one: %v", err)
	}
	if err := load(foreign, ca); err == nil || !strings.Contains(err.Error(), "unknown authority") || !strings.Contains(err.Error(), "a.pem") {
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
	root, none := filepath.Join(ca.dir, "ca.pem"), filepath.Join(ca.dir, "none.pem")
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
