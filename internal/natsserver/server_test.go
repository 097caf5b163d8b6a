package natsserver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks NATS's protocol, which is lines of text.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	info struct {
		JetStream bool   `json:"jetstream"`
		Cluster   string `json:"cluster"`
	}
}

func dial(t *testing.T, s *natsserver.Server, i int, token string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address(i))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: conn, r: bufio.NewReader(conn)}
	if err := json.Unmarshal([]byte(c.line("INFO ")), &c.info); err != nil {
		t.Fatal(err)
	}
	c.send(`CONNECT {"verbose":false,"headers":true,"no_responders":false,"auth_token":%q}`, token)
	return c
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, format+"\r\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// line reads lines up to one with this beginning, and returns its rest.
func (c *client) line(prefix string) string {
	c.t.Helper()
	for {
		s, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("wait for %s: %v", prefix, err)
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(s), prefix); ok {
			return rest
		}
	}
}

// ask sends a request and returns the answer.
func (c *client) ask(subject, body string) string {
	c.t.Helper()
	c.send("SUB inbox 1\r\nUNSUB 1 1\r\nPUB %s inbox %d\r\n%s", subject, len(body), body)
	c.line("MSG inbox 1 ")
	return c.line("")
}

// askAgain repeats a request until it is answered, by what client sends of it: a stream that has just elected its leader may not answer yet, and the
// server of this client may not know yet that somebody hears its subject. The request changes nothing, or nothing the second time.
func (c *client) askAgain(request string) string {
	c.t.Helper()
	done := make(chan struct{})
	defer close(done)
	c.send("SUB inbox 1")
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := io.WriteString(c.conn, request+"\r\n"); err != nil {
				return // the reader says why
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	c.line("MSG inbox 1 ")
	return c.line("")
}

func TestOne(t *testing.T) {
	dir := t.TempDir()
	s, err := natsserver.Run(t.Context(), natsserver.Options{Token: "se/cret", SyncAlways: true, MaxFileStore: 1 << 20, Dir: dir, OwnGroup: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		p, err := os.FindProcess(s.Process(1).PID())
		if err == nil && runtime.GOOS != "windows" && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d is still there", s.Process(1).PID())
		}
		if streams, err := filepath.Glob(filepath.Join(dir, "nats-1", "jetstream", "*", "streams", "kept")); err != nil || len(streams) != 1 {
			t.Errorf("the data is not left in the folder that was given: %q, %v", streams, err)
		}
	}()
	if u, err := url.Parse(s.URL()); err != nil || u.Scheme != "nats" || u.User.Username() != "se/cret" || u.Host != s.Address(1) {
		t.Errorf("URL %s: %v", s.URL(), err)
	}
	c := dial(t, s, 1, "se/cret")
	if !c.info.JetStream {
		t.Error("JetStream is off")
	}
	if got := c.ask("$JS.API.STREAM.CREATE.kept", `{"name":"kept","subjects":["kept"],"storage":"file"}`); !strings.Contains(got, `"did_create":true`) {
		t.Fatal(got)
	}
	if got := c.ask("kept", "hello"); !strings.Contains(got, `"seq":1`) {
		t.Fatal(got)
	}
	// The limit is looked at before a message is written, and not with it.
	big, got := strings.Repeat("x", 900<<10), ""
	for range 3 {
		got = c.ask("kept", big)
	}
	if !strings.Contains(got, `"error"`) {
		t.Errorf("much more than MaxFileStore is taken: %s", got)
	}
	dial(t, s, 1, "wrong").line("-ERR 'Authorization Violation'")

	if err := errors.Join(s.Process(1).Kill(), s.Start(t.Context(), 1), s.Serving(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := dial(t, s, 1, "se/cret").ask("$JS.API.STREAM.INFO.kept", ""); !strings.Contains(got, `"messages":3,`) {
		t.Errorf("what was acknowledged is gone after a restart: %s", got)
	}
}

func TestThree(t *testing.T) {
	s, err := natsserver.Run(t.Context(), natsserver.Options{Servers: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := strings.Count(s.URL(), "nats://127.0.0.1:"); n != 3 {
		t.Errorf("%d servers in %s", n, s.URL())
	}
	c := dial(t, s, 1, "")
	if c.info.Cluster == "" {
		t.Error("the first server is in no cluster")
	}
	request, created := `{"name":"kept","subjects":["kept"],"num_replicas":3}`, ""
	for !strings.Contains(created, `"num_replicas":3`) {
		// A leader refuses three replicas until each server has told it of its room: no port of the monitor shows that.
		if created != "" && !strings.Contains(created, `"err_code":10005`) {
			t.Fatal(created)
		}
		created = dial(t, s, 1, "").askAgain(fmt.Sprintf("PUB $JS.API.STREAM.CREATE.kept inbox %d\r\n%s", len(request), request))
	}
	id := "NATS/1.0\r\nNats-Msg-Id: hello\r\n\r\n"
	if got := dial(t, s, 1, "").askAgain(fmt.Sprintf("HPUB kept inbox %d %d\r\n%shello", len(id), len(id+"hello"), id)); !strings.Contains(got, `"seq":1`) {
		t.Fatal(got)
	}
	if err := errors.Join(s.Process(1).Kill(), s.Serving(t.Context())); err != nil { // two are enough
		t.Fatal(err)
	}
	if err := errors.Join(s.Start(t.Context(), 1), s.Serving(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := dial(t, s, 3, "").askAgain("PUB $JS.API.STREAM.INFO.kept inbox 0\r\n"); !strings.Contains(got, `"messages":1,`) {
		t.Errorf("what was acknowledged is gone: %s", got)
	}
}

func TestRunThatFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, err := natsserver.Run(t.Context(), natsserver.Options{Servers: 2}); err == nil || !strings.Contains(err.Error(), "give 1 or 3") {
		t.Errorf("two servers: %v", err)
	}
	if _, err := natsserver.Run(t.Context(), natsserver.Options{Program: "/nonexistent/nats"}); err == nil || !strings.Contains(err.Error(), "start NATS") {
		t.Errorf("a binary that is not there: %v", err)
	}
	script := filepath.Join(t.TempDir(), "nats-server")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho no such luck\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.Run(t.Context(), natsserver.Options{Program: script}); err == nil || !strings.Contains(err.Error(), "nats-1: it ended: no such luck") {
		t.Errorf("a server that ends: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPortIsTaken: a port that was asked for is not replaced by another.
func TestPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	_, err = natsserver.Run(t.Context(), natsserver.Options{Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}
