package link_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// TestSession: both sides know each other, frames arrive in order and come back, and each side is told once.
func TestSession(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"))
		p := a.connect(b)
		want := link.Identity{Cluster: "test", Node: "b", Incarnation: 1, Functions: []link.Function{{Kind: "task", Name: "square", Fingerprint: 7}}}
		if diff := cmp.Diff(want, p.Identity()); diff != "" {
			t.Error(diff)
		}
		if again := a.connect(b); again != p || a.Peer("b") != p {
			t.Error("a second session")
		}
		for i := range 1000 {
			if err := p.Send(wire.Requests, kindEcho, fmt.Appendf(nil, "n%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		a.expect("b replies: n999")
		at := 0
		for _, s := range a.lines() {
			if strings.HasPrefix(s, "b replies:") {
				if s != fmt.Sprintf("b replies: n%d", at) {
					t.Fatalf("%q came as number %d", s, at)
				}
				at++
			}
		}
		b.expect("up a(1)")
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		b.expect("down a(1): closed by the peer: the node closed its link")
		a.expect("down b(1): link closed")
		if a.count("up") != 1 || b.count("up") != 1 || a.count("down") != 1 || b.count("down") != 1 {
			t.Error(a.lines(), b.lines())
		}
		if err := p.Send(wire.Requests, kindEcho, nil); !errors.Is(err, raysys.ErrNotDelivered) || !errors.Is(err, link.ErrClosed) {
			t.Error(err)
		}
		if _, err := a.Connect(t.Context(), "b", b.Addr()); !errors.Is(err, raysys.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestLastBytes: what was queued before Close arrives.
func TestLastBytes(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"))
		p := a.connect(b)
		for range 100 {
			p.Send(wire.Requests, kindNote, make([]byte, 5000))
		}
		p.Close(errors.New("enough"))
		if err := p.Send(wire.Requests, kindNote, nil); !errors.Is(err, raysys.ErrNotDelivered) {
			t.Error("a closed peer takes frames:", err)
		}
		b.expect("down a(1): closed by the peer: enough")
		if n := b.count("a requests: 5000 bytes"); n != 100 {
			t.Errorf("%d of 100 frames arrived", n)
		}
		a.expect("down b(1): enough")
		if q := a.connect(b); q == p {
			t.Error("a session that is over came back")
		}
	})
}

// TestFrameSizes: from nothing to the limit, and not beyond.
func TestFrameSizes(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		small := func(c *link.Config) { c.MaxFrame = 300_000 }
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), small)
		p := a.connect(b)
		for _, n := range []int{0, 1, 50, 16<<10 - 8, 16 << 10, 64<<10 - 8, 64<<10 - 7, 64 << 10, 200_000, 300_000, 3} {
			if err := p.Send(wire.Requests, kindEcho, []byte(strings.Repeat("x", n))); err != nil {
				t.Fatal(err)
			}
		}
		a.expect("b replies: x", "b replies: 50 bytes", "b replies: 65528 bytes", "b replies: 65529 bytes", "b replies: 300000 bytes", "b replies: xxx")
		if err := p.Send(wire.Requests, kindEcho, make([]byte, 300_001)); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		if err := p.Send(wire.Bulk, kindEcho, nil); err == nil {
			t.Error("Send takes class bulk")
		}
		if err := p.Send(wire.Requests, 1, nil); err == nil {
			t.Error("Send takes the link's kinds")
		}
	})
}

// TestUnknownKinds are skipped and counted, so that a later version may have more.
func TestUnknownKinds(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"))
		p := a.connect(b)
		p.Send(wire.Requests, 200, []byte("what?"))
		p.Send(wire.Requests, kindEcho, []byte("still here"))
		a.expect("b replies: still here")
		q := b.Peer("a")
		p.Close(nil)
		<-q.Done() // a reply may leave before what came with its request is counted
		s := q.Stats()
		if s.Unknown != 1 || s.In[wire.Requests] != (link.Traffic{Frames: 2, Bytes: 2*8 + 15}) {
			t.Errorf("%+v", s)
		}
		if out := p.Stats().Out[wire.Requests]; out != s.In[wire.Requests] {
			t.Errorf("sent %+v, came %+v", out, s.In[wire.Requests])
		}
	})
}

// TestPanickingHandler: the session ends, both sides know why, the process lives.
func TestPanickingHandler(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		told := make(chan string, 1)
		watch := func(c *link.Config) {
			c.Panicked = func(p *link.Peer, k wire.Kind, v any, stack []byte) {
				told <- fmt.Sprint(p, " ", k, " ", v, " ", strings.Contains(string(stack), "main_test.go"))
			}
		}
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), watch)
		a.connect(b).Send(wire.Requests, kindBoom, nil)
		if s := <-told; s != "a(1) 42 boom true" {
			t.Error(s)
		}
		b.expect("down a(1): handler panicked on a frame of kind 42: boom")
		a.expect("down b(1): closed by the peer: handler panicked on a frame of kind 42: boom")
		a.connect(b).Send(wire.Requests, kindEcho, []byte("again"))
		a.expect("b replies: again")
	})
}

// TestDownIsLast: Down waits for the handler that runs, on either connection, though the session is over at once, and
// no other handler begins.
func TestDownIsLast(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		for _, bulk := range []bool{false, true} {
			in, out := make(chan struct{}, 10), make(chan struct{})
			slow := func(c *link.Config) {
				c.Handlers[kindEcho] = func(*link.Peer, wire.Class, []byte) {
					in <- struct{}{}
					<-out
				}
			}
			a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), slow)
			p := a.connect(b)
			for range 10 {
				if bulk {
					p.SendBulk(kindEcho, nil)
				} else {
					p.Send(wire.Requests, kindEcho, nil)
				}
			}
			<-in
			q := b.Peer("a")
			q.Close(errors.New("suddenly"))
			if b.Peer("a") != nil || q.Err() == nil {
				t.Error("the session is not over at once")
			}
			if n := b.count("down"); n != 0 {
				t.Error("Down was called beside a handler")
			}
			select {
			case <-q.Done():
				t.Error("it is done beside a handler")
			case <-time.After(20 * time.Millisecond):
			}
			close(out)
			b.expect("down a(1): suddenly")
			<-q.Done()
			if len(in) != 0 {
				t.Error(len(in), "handlers began after the session was over")
			}
			a.Close(t.Context())
			b.Close(t.Context())
		}
	})
}

func TestConnectErrors(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"))
		other := open(t, "c", transport("c"), self(link.Identity{Cluster: "other", Node: "c", Incarnation: 1}))
		twin := open(t, "a", transport("twin"), self(link.Identity{Cluster: "test", Node: "a", Incarnation: 2}))
		closed := open(t, "d", transport("d"))
		gone := closed.Addr()
		closed.Close(t.Context())
		for _, c := range []struct {
			name, text string
			from       *end
			node       raysys.NodeID
			addr       string
			want       error
			told       *end // who else must know
		}{
			{"nobody there", "connect to d at " + gone, a, "d", gone, link.ErrRefused, nil},
			{"cluster", `node b is of cluster "test", node c of cluster "other"`, other, "b", b.Addr(), link.CodeCluster, b},
			{"node", "node b answers where x was expected", a, "x", b.Addr(), link.CodeNode, b},
			{"own name", "wants to connect to itself", a, "a", a.Addr(), link.CodeSelf, nil},
			{"own address", "node a connected to itself", a, "x", a.Addr(), link.CodeSelf, a},
			{"twin", "two processes call themselves node a (incarnations 1 and 2)", twin, "x", a.Addr(), link.CodeSelf, a},
			{"no name", "no node is named", a, "", b.Addr(), nil, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, err := c.from.Connect(t.Context(), c.node, c.addr)
				if err == nil || !strings.Contains(err.Error(), c.text) || c.want != nil && !errors.Is(err, c.want) {
					t.Error(err)
				}
				if c.told != nil {
					c.told.expect("rejected " + string(c.from.node))
				}
			})
		}
		if a.count("up")+b.count("up")+other.count("up") != 0 {
			t.Error("a rejected session was up")
		}
	})
}

// TestAdmit: either side may refuse, with its own error, and the other side learns why.
func TestAdmit(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		errBarred := errors.New("incarnation 1 is not in nodes/")
		bar := func(c *link.Config) {
			c.Admit = func(_ context.Context, who link.Identity, _ *x509.Certificate) error {
				if who.Node == "b" || who.Node == "c" {
					return errBarred
				}
				return nil
			}
		}
		a, b := open(t, "a", transport("a"), bar), open(t, "b", transport("b"))
		_, err := a.Connect(t.Context(), "b", b.Addr())
		if !errors.Is(err, errBarred) || !errors.Is(err, link.CodeNotAllowed) {
			t.Error(err)
		}
		b.expect("rejected a: handshake rejected: peer says not admitted: incarnation 1 is not in nodes/")
		_, err = b.Connect(t.Context(), "a", a.Addr())
		var r *link.Rejection
		if !errors.As(err, &r) || !r.Remote || r.Code != link.CodeNotAllowed || r.Text != errBarred.Error() {
			t.Error(err)
		}
		a.expect("rejected b: handshake rejected: not admitted")
	})
}

// TestNewIncarnation takes the place of the old one, whose Down comes first.
func TestNewIncarnation(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		for _, names := range [][2]raysys.NodeID{{"a", "b"}, {"b", "a"}} { // the elder on either side
			stays, leaves := names[0], names[1]
			s := open(t, stays, transport(stays))
			one := open(t, leaves, transport(leaves))
			one.connect(s)
			s.expect(fmt.Sprintf("up %s(1)", leaves))
			two := open(t, leaves, transport(leaves), self(link.Identity{Cluster: "test", Node: leaves, Incarnation: 2}))
			two.connect(s)
			s.expect(fmt.Sprintf("up %s(2)", leaves))
			want := []string{fmt.Sprintf("up %s(1)", leaves), fmt.Sprintf("down %s(1): session replaced by one of incarnation 2", leaves), fmt.Sprintf("up %s(2)", leaves)}
			if diff := cmp.Diff(want, s.lines()); diff != "" {
				t.Error(diff)
			}
			one.expect(fmt.Sprintf("down %s(1): closed by the peer: session replaced", stays))
		}
	})
}

func TestCloseWithoutStart(t *testing.T) {
	l, err := link.New(link.Config{Self: func() link.Identity { return link.Identity{Cluster: "c", Node: "n"} }, Transport: linktest.NewNetwork(1).Transport("n")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Connect(t.Context(), "m", "m:1"); err == nil || !strings.Contains(err.Error(), "not started") {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Start(t.Context()); err == nil {
		t.Error("a closed link starts")
	}
}

func TestBadConfig(t *testing.T) {
	_, err := link.New(link.Config{
		Handlers:  map[wire.Kind]link.Handler{3: func(*link.Peer, wire.Class, []byte) {}, 50: nil},
		PingEvery: -time.Second, MaxFrame: 10, Window: [3]int{0, 1, 0},
	})
	for _, s := range []string{"Self", "Transport", "kind 3", "Handlers[50]", "PingEvery", "MaxFrame", "Window[replies]"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%s is not in %v", s, err)
		}
	}
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		id   link.Identity
		text string
	}{
		{link.Identity{Node: "n"}, "no cluster"},
		{link.Identity{Cluster: "c"}, "no node"},
		{link.Identity{Cluster: "c", Node: raysys.NodeID(strings.Repeat("n", 5000))}, "5000 bytes"},
	} {
		l, err := link.New(link.Config{Self: func() link.Identity { return c.id }, Transport: linktest.NewNetwork(1).Transport("n")})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(t.Context()); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Error(err)
		}
		l.Close(t.Context())
	}
}
