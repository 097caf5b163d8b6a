package page

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/certs"
)

func sum(token string) [32]byte { return sha256.Sum256([]byte(token)) }

func opened(t *testing.T, c Config) (*Server, string) {
	t.Helper()
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	c.Ready = func() error { return nil }
	c.Others = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "other", r.URL.Path) })
	c.Draw = func() string { return "a token of 16 ch" }
	if c.Source == nil {
		c.Source = &fake{}
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, s.URL()
}

// TestServer: it serves until it is closed; what is not of the page goes on as it was; an address that is taken is an error with a cure.
func TestServer(t *testing.T) {
	s, url := opened(t, Config{Address: "localhost:0"})
	_, port, _ := net.SplitHostPort(s.Addr().String())
	if want := "http://localhost:" + port + "/"; url != want || s.Off() != "" || s.Token() != "" {
		t.Errorf("%q %q %q, want %q", url, s.Off(), s.Token(), want)
	}
	for _, path := range []string{"metrics", "healthz", "readyz", "debug/pprof/heap"} {
		if code, body := fetch(t, url+path); code != 200 || body != "other /"+path+"\n" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	r, err := http.Head(url + "api/status")
	if err != nil || r.StatusCode != 200 {
		t.Errorf("HEAD: %v %v", r, err)
	}
	if _, err := Open(Config{Address: s.Addr().String()}); err == nil || !strings.Contains(err.Error(), "RAYSYS_HTTP") {
		t.Errorf("an address that is taken: %v", err)
	}
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: %s\r\n\r\n", strings.Repeat("x", headLimit+8<<10))
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 431 ") {
		t.Errorf("more than 64 KiB of headers: %.60q", b)
	}
	s.Close()
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("it listens after its end")
	}
}

// TestBeyondLoopback: what it takes to serve the page where other hosts reach it.
func TestBeyondLoopback(t *testing.T) {
	s, url := opened(t, Config{Address: "0.0.0.0:0"})
	if url != "" || !strings.Contains(s.Off(), "RAYSYS_HTTP_TLS_CERT") || s.Token() != "" {
		t.Errorf("plain: %q %q", url, s.Off())
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	here := "http://127.0.0.1:" + port
	if code, body := fetch(t, here+"/"); code != http.StatusForbidden || !strings.Contains(body, "RAYSYS_HTTP_INSECURE") {
		t.Errorf("plain: %d %s", code, body)
	}
	if code, _ := fetch(t, here+"/metrics"); code != http.StatusOK {
		t.Errorf("metrics: %d", code)
	}

	s, url = opened(t, Config{Address: ":0", Insecure: true})
	if host, err := os.Hostname(); err != nil || !strings.HasPrefix(url, "http://"+host+":") || s.Token() != "a token of 16 ch" {
		t.Errorf("%q %q %v", url, s.Token(), err)
	}

	cert, key, ca := certificate(t, "first")
	s, url = opened(t, Config{Address: "127.0.0.1:0", Cert: cert, Key: key})
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Errorf("%q", url)
	}
	names := func() string {
		c, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	roots := x509.NewCertPool()
	if b, err := os.ReadFile(ca); err != nil || !roots.AppendCertsFromPEM(b) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	if r, err := client.Get(url + "api/status"); err != nil || r.StatusCode != 200 {
		t.Errorf("over TLS: %v %v", r, err)
	} else {
		r.Body.Close()
	}
	// A certificate that was renewed is used, and while its key is missing the old one is.
	newCert, newKey, _ := certificate(t, "second")
	rename(t, newCert, cert)
	if got := names(); got != "first" {
		t.Errorf("between: %q", got)
	}
	rename(t, newKey, key)
	if got := names(); got != "second" {
		t.Errorf("renewed: %q", got)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestBadFiles: files that cannot be meant keep it from serving, with an error that names the variable.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	short, long, spaced := filepath.Join(dir, "short"), filepath.Join(dir, "long"), filepath.Join(dir, "spaced")
	for name, text := range map[string]string{short: "secret\n", long: "0123456789abcdef\n", spaced: "0123456789 abcdef"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, _, _ := certificate(t, "x")
	for _, c := range []Config{
		{TokenFile: short}, {TokenFile: spaced}, {TokenFile: filepath.Join(dir, "none")}, {Cert: cert, Key: short}, {Cert: "none", Key: "none"},
	} {
		c.Address = "127.0.0.1:0"
		if s, err := Open(c); err == nil || !strings.Contains(err.Error(), "RAYSYS_HTTP_T") {
			t.Errorf("%+v: %v", c, err)
			s.Close()
		}
	}
	s, _ := opened(t, Config{TokenFile: long})
	for token, want := range map[string]int{"0123456789abcdef": 200, "0123456789abcdef\n": 401, "": 401} {
		if code, _ := ask(s, "/api/status", "Authorization", "Bearer "+token); code != want {
			t.Errorf("%q: %d, want %d", token, code, want)
		}
	}
}

// TestIdleConnections: connections that say nothing, however many, keep none from reading, and are bounded.
func TestIdleConnections(t *testing.T) {
	const many = 10_000
	s, url := opened(t, Config{})
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	ended := make(chan bool, many)
	open := 0
	for i := range many {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		open++
		go func() { // ends with the connection
			_, _ = c.Read(make([]byte, 1))
			c.Close()
			ended <- true
		}()
		if i%1000 == 999 {
			r, err := client.Get(url + "api/status")
			if err != nil || r.StatusCode != 200 {
				t.Fatalf("beside %d connections: %v %v", i, r, err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	}
	s.conns.mu.Lock()
	if n := len(s.conns.by); n > maxConns {
		t.Errorf("%d connections are kept", n)
	}
	s.conns.mu.Unlock()
	s.Close()
	for range open {
		<-ended
	}
}

// certificate makes one for 127.0.0.1.
func certificate(t *testing.T, name string) (cert, key, ca string) {
	t.Helper()
	a, err := certs.New(t.TempDir())
	if err == nil {
		cert, key, err = a.IssueLocal(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, a.CA
}
