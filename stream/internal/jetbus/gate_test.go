package jetbus_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/testkit"
)

// gate stands before a server. It lets clients through, or answers them as a server does that refuses them.
type gate struct {
	l      net.Listener
	server string
	says   chan string // one each time that it has refused a client

	mu    sync.Mutex // guards the rest
	shut  bool
	conns map[net.Conn]bool // of clients that are through
}

const violation = "-ERR 'Authorization Violation'\r\n"

func newGate(t *testing.T, s *testkit.NATSServer) *gate {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{l: l, server: u.Host, says: make(chan string, 1000), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.say("")
		all.Wait()
	})
	return g
}

func (g *gate) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer s.Close()
	g.mu.Lock()
	shut := g.shut
	if !shut {
		g.conns[c] = true
	}
	g.mu.Unlock()
	if shut {
		info, err := bufio.NewReader(s).ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, info)
		_, _ = bufio.NewReader(c).ReadString('\n') // CONNECT
		_, _ = io.WriteString(c, violation)
		g.says <- violation
		return
	}
	go func() {
		_, _ = io.Copy(s, c)
		s.Close()
	}()
	_, _ = io.Copy(c, s)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// say sends a line to each client that is through, as if the server did so; "" ends the connections.
func (g *gate) say(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if line == "" {
			c.Close()
		} else {
			_, _ = io.WriteString(c, line)
		}
	}
}

// set shuts the gate, and ends what is through, or opens it.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
	if shut {
		g.say("")
	}
}

const (
	password = "sesame%2Fopen"
	hidden   = "sesame"
)

func (g *gate) bus(t *testing.T) *jetbus.Bus {
	t.Helper()
	b, err := jetbus.Open(jetbus.Config{URL: "nats://user:" + password + "@" + g.l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// follow reads a stream until the test ends, and returns what comes.
func follow(t *testing.T, b bus.Bus, stream string) <-chan string {
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- b.Read(ctx, stream, bus.Filter{}, 0, 0, func(m bus.Message) bool { got <- string(m.Data); return true })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error("the reader ended:", err)
		}
	})
	return got
}

const limit = time.Minute // of a busy machine; nothing waits for it where all goes well

func next(t *testing.T, got <-chan string, want string) {
	t.Helper()
	select {
	case s := <-got:
		if s != want {
			t.Fatalf("%q, want %q", s, want)
		}
	case <-time.After(limit):
		t.Fatalf("%q does not come", want)
	}
}

func publish(ctx context.Context, b bus.Bus, data string) error {
	_, err := b.Publish(ctx, "s", []bus.Message{{Key: "x", Data: []byte(data)}})
	return err
}

// TestRefusedForAWhile: a server that refuses a client which it let in before is away: calls wait, their error says what the server says, and
// everything goes on once it lets the client in again.
func TestRefusedForAWhile(t *testing.T) {
	g := newGate(t, testkit.NATS(t))
	b := g.bus(t)
	if err := b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	got := follow(t, b, "s")
	if err := publish(t.Context(), b, "1"); err != nil {
		t.Fatal(err)
	}
	next(t, got, "1")
	g.set(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for range 5 { // the client alone gives up after two
			<-g.says
		}
		cancel(errors.New("enough"))
	}()
	err := publish(ctx, b, "never")
	if err == nil || !strings.Contains(err.Error(), "enough") || !strings.Contains(strings.ToLower(err.Error()), "authorization violation") ||
		!strings.Contains(err.Error(), g.l.Addr().String()) || strings.Contains(err.Error(), hidden) {
		t.Fatal(err)
	}
	if errors.Is(err, bus.ErrClosed) || errors.Is(err, bus.ErrRefused) {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- publish(t.Context(), b, "2") }()
	<-g.says
	g.set(false)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	next(t, got, "2")
}

// TestEndedForGood: after an answer with which the client of NATS ends the connection for good there is another one.
func TestEndedForGood(t *testing.T) {
	g := newGate(t, testkit.NATS(t))
	b := g.bus(t)
	if err := b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	got := follow(t, b, "s")
	for _, data := range []string{"1", "2", "3"} {
		if err := publish(t.Context(), b, data); err != nil {
			t.Fatal(err)
		}
		next(t, got, data)
		g.say("-ERR 'Something That No Client Knows'\r\n")
	}
	other := g.bus(t)
	other.Close()
	other.Close()
	if err := publish(t.Context(), other, "4"); !errors.Is(err, bus.ErrClosed) {
		t.Fatal(err)
	}
}

// TestNeverLetIn: a server that never let this client in refuses its calls at once. It may let it in later.
func TestNeverLetIn(t *testing.T) {
	g := newGate(t, testkit.NATS(t))
	g.set(true)
	b := g.bus(t)
	for range 2 {
		err := b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1})
		if !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), g.l.Addr().String()) || strings.Contains(err.Error(), hidden) {
			t.Fatal(err)
		}
	}
	g.set(false)
	testkit.Eventually(t, limit, "it is let in", func() bool { return b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1}) == nil })
	if err := publish(t.Context(), b, "1"); err != nil {
		t.Fatal(err)
	}
}

// TestBadURL: an error of a URL does not show it.
func TestBadURL(t *testing.T) {
	for _, u := range []string{"nats://user:sesame/open@host:1", "nats://user:sesame@", "nats://user:sesame@host:port", "nats://a,,nats://user:sesame@b"} {
		if _, err := jetbus.Open(jetbus.Config{URL: u}); err == nil || strings.Contains(err.Error(), hidden) || !strings.Contains(err.Error(), "nats://HOST:PORT") {
			t.Error(err)
		}
	}
}
