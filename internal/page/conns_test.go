package page

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/inspect"
)

// TestReader: a host is one reader, by whichever of its addresses.
func TestReader(t *testing.T) {
	for remote, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1", "[::1]:80": "::1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "pipe": "pipe", "": "",
	} {
		if got := readerOf(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// remote is a connection from somewhere.
type remote struct {
	net.Conn
	host   string
	closed atomic.Bool
}

func (r *remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(r.host), Port: 5} }

func (r *remote) Close() error {
	r.closed.Store(true)
	if r.Conn == nil {
		return nil
	}
	return r.Conn.Close()
}

// TestStates: whatever states net/http tells of whichever connections, also of those that were turned away, the bounds hold, a connection with
// a request stays, and one that was turned away is closed.
func TestStates(t *testing.T) {
	states := []http.ConnState{http.StateActive, http.StateActive, http.StateActive, http.StateIdle, http.StateClosed, http.StateHijacked}
	for seed := range uint64(5) {
		r, c := rand.New(rand.NewPCG(seed, 1)), newConns()
		var all []*remote
		last, ended := map[*remote]http.ConnState{}, map[*remote]bool{}
		say := func(one *remote, to http.ConnState) {
			active := map[*remote]bool{}
			for _, a := range c.by {
				if a.idle == nil && a.conn != net.Conn(one) {
					active[a.conn.(*remote)] = true
				}
			}
			c.state(one, to)
			last[one], ended[one] = to, ended[one] || to == http.StateClosed || to == http.StateHijacked
			for a := range active {
				if a.closed.Load() {
					t.Fatalf("seed %d: a connection with a request is turned away", seed)
				}
			}
		}
		for range 3000 {
			if len(all) == 0 || r.IntN(3) == 0 {
				one := &remote{host: fmt.Sprintf("192.0.2.%d", r.IntN(1+5*int(seed)))}
				all = append(all, one)
				say(one, http.StateNew)
				continue
			}
			say(all[r.IntN(len(all))], states[r.IntN(len(states))])
		}
		idle, of := 0, map[string]int{}
		for _, one := range all {
			a := c.by[one]
			if gone := one.closed.Load() || ended[one]; gone != (a == nil) {
				t.Fatalf("seed %d: a connection in state %v: gone %v, known %v", seed, last[one], gone, a != nil)
			}
			if a != nil {
				of[a.reader]++
				if a.idle != nil {
					idle++
				}
			}
		}
		if c.idle.Len() != idle {
			t.Fatalf("seed %d: %d idle connections in the list, of %d", seed, c.idle.Len(), idle)
		}
		for reader, n := range of {
			if c.of[reader] != n {
				t.Fatalf("seed %d: %s has %d connections, and %d are counted", seed, reader, n, c.of[reader])
			}
		}
	}
	// All of them with a request: one more is turned away itself.
	c := newConns()
	for i := range maxConns {
		one := &remote{host: fmt.Sprintf("198.51.100.%d", i%200)}
		c.state(one, http.StateNew)
		c.state(one, http.StateActive)
	}
	more := &remote{host: "192.0.2.1"}
	c.state(more, http.StateNew)
	c.state(more, http.StateActive)
	c.state(more, http.StateClosed)
	if !more.closed.Load() || len(c.by) != maxConns {
		t.Errorf("one more: closed %v, %d are known", more.closed.Load(), len(c.by))
	}
}

// TestFullOfIdle: where there are as many connections as there may be, the one that has been idle longest goes, and of a reader with too many
// one of its own.
func TestFullOfIdle(t *testing.T) {
	c := newConns()
	var all []*remote
	for i := range maxConns {
		all = append(all, &remote{host: fmt.Sprintf("198.51.100.%d", i/eachConns)})
		c.state(all[i], http.StateNew)
	}
	c.state(all[0], http.StateIdle) // so that the second has been idle longest
	for n, host := range map[int]string{1: "192.0.2.1", eachConns: "198.51.100.1"} {
		one := &remote{host: host}
		c.state(one, http.StateNew)
		if one.closed.Load() || !all[n].closed.Load() || all[0].closed.Load() || len(c.by) != maxConns {
			t.Errorf("one more of %s: closed %v; is connection %d: %v; %d are known", host, one.closed.Load(), n, all[n].closed.Load(), len(c.by))
		}
	}
}

// pipes is a listener whose connections are in memory, so that the time of a test is virtual.
type pipes struct {
	calls chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.over) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dial connects from a host.
func (p *pipes) dial(host string) net.Conn {
	mine, theirs := net.Pipe()
	p.calls <- &remote{Conn: theirs, host: host}
	return mine
}

// piped serves in memory until the test ends.
func piped(t *testing.T, f Source) (*Server, *pipes) {
	s, p := serving(t, f), &pipes{calls: make(chan net.Conn), over: make(chan struct{})}
	s.Others = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "other", r.URL.Path) })
	s.serve(p)
	t.Cleanup(s.Close)
	return s, p
}

// get asks, and returns the code of the answer, 0 where the connection ends without one.
func (p *pipes) get(host, path, header string) int {
	c := p.dial(host)
	defer c.Close()
	go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, header)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, a.Body)
	return a.StatusCode
}

// TestHeldRequests: requests whose body does not come end after two seconds; meanwhile their reader gets no more of them, and others and the
// health are answered.
func TestHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := piped(t, &fake{})
		codes := make(chan int, 300)
		begun := time.Now()
		for range cap(codes) {
			go func() { codes <- p.get("192.0.2.1", "/healthz", "Content-Length: 100000\r\n") }()
			synctest.Wait()
		}
		<-time.After(time.Second)
		for range cap(codes) - eachRequests {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("one of 300 requests without their body: %d", code)
			}
		}
		if d := time.Since(begun); d != time.Second {
			t.Errorf("who is refused waits: %v", d)
		}
		for path, codes := range map[string][2]int{"/healthz": {200, 200}, "/readyz": {200, 200}, "/metrics": {503, 200}, "/api/status": {503, 200}} {
			for i, host := range []string{"192.0.2.1", "192.0.2.2"} {
				if code := p.get(host, path, ""); code != codes[i] {
					t.Errorf("%s for %s meanwhile: %d, want %d", path, host, code, codes[i])
				}
			}
		}
		for range eachRequests {
			if code := <-codes; code != http.StatusRequestTimeout {
				t.Errorf("a body that does not come: %d", code)
			}
		}
		if d := time.Since(begun); d != bodyLimit {
			t.Errorf("a body that does not come is waited for %v", d)
		}
		for _, header := range []string{"Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n"} {
			if code := p.get("192.0.2.1", "/api/status", header); code != 200 {
				t.Errorf("%q: %d", header, code)
			}
		}
		if code := p.get("192.0.2.1", "/api/logs?follow=true", "Content-Length: 9\r\n"); code != http.StatusRequestTimeout {
			t.Errorf("a follower whose body does not come: %d", code)
		}
	})
}

// writing follows with lines without end.
type writing struct {
	fake
	over atomic.Int64
}

func (f *writing) Logs(ctx context.Context, _ inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error) {
	for ctx.Err() == nil {
		follow(inspect.LogLine{Text: strings.Repeat("x", 10_000)})
	}
	f.over.Add(1)
	return inspect.Logs{}, nil
}

// TestFollowerThatTakesNothing ends after half a minute, and one that takes some of it goes on.
func TestFollowerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &writing{}
		s, p := piped(t, f)
		follow := func() net.Conn {
			c := p.dial("192.0.2.1")
			fmt.Fprintf(c, "GET /api/logs?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
			return c
		}
		for range eachFollowers - 1 {
			defer follow().Close()
		}
		c := follow()
		defer c.Close()
		begun := time.Now()
		for time.Since(begun) < writeLimit-time.Second {
			<-time.After(time.Second)
			if _, err := io.CopyN(io.Discard, c, 50_000); err != nil {
				t.Fatal(err)
			}
		}
		if n := f.over.Load(); n != 0 {
			t.Errorf("%d are over after %v", n, time.Since(begun))
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		s.followers.mu.Lock()
		left := s.followers.all
		s.followers.mu.Unlock()
		if n := f.over.Load(); n != eachFollowers-1 || left != 1 {
			t.Errorf("%d are over after %v, %d follow", n, time.Since(begun), left)
		}
		if _, err := io.CopyN(io.Discard, c, 50_000); err != nil {
			t.Errorf("who takes some of it: %v", err)
		}
	})
}

// TestFlood: readers who say nothing, send no body, go at once, or do not read the answer, plain and with TLS, end no program; the health is
// answered beside them.
func TestFlood(t *testing.T) {
	cert, key, _ := certificate(t, "flooded")
	for readersAtOnce, c := range map[int]Config{300: {}, 30: {Cert: cert, Key: key}} { // a handshake costs time
		s, _ := opened(t, c)
		dial := func() (net.Conn, error) {
			conn, err := net.DialTimeout("tcp", s.Addr().String(), 10*time.Second)
			if err == nil && c.Cert != "" {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			return conn, err
		}
		var readers sync.WaitGroup
		for i := range readersAtOnce {
			readers.Go(func() {
				for range 2 {
					conn, err := dial()
					if err != nil {
						t.Error(err)
						return
					}
					ask := []string{
						"", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
						"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
					}[i%5]
					_, _ = io.WriteString(conn, ask) // it may be turned away
					if i%2 == 0 {
						_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
						_, _ = io.Copy(io.Discard, io.LimitReader(conn, 100))
					}
					conn.Close()
				}
			})
		}
		healthy := 0
		for range 50 {
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if b, _ := io.ReadAll(conn); strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
				healthy++
			}
			conn.Close()
		}
		readers.Wait()
		if healthy == 0 {
			t.Error("the health was never answered")
		}
		if conn, err := dial(); err != nil {
			t.Errorf("after it: %v", err)
		} else {
			conn.Close()
		}
		s.Close()
	}
}
