package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// bubble runs f in virtual time with nodes a and b connected.
func bubble(t *testing.T, f func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer), change ...func(*link.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		a, b := open(t, "a", n.Transport("a"), change...), open(t, "b", n.Transport("b"), change...)
		p := a.connect(b)
		synctest.Wait()
		f(t, n, a, b, p)
		// Nothing may hold the bubble open once the test is over.
		a.Close(context.Background())
		b.Close(context.Background())
	})
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestKilled: a process that ends is down at once, and the redial proves it dead (rule C17).
func TestKilled(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		addr := b.Addr()
		begin := time.Now()
		n.Kill("b")
		<-p.Done()
		if took := time.Since(begin); took != 0 || !errors.Is(p.Err(), link.ErrReset) {
			t.Errorf("down after %s: %v", took, p.Err())
		}
		if err := p.Send(wire.Requests, kindNote, nil); !errors.Is(err, raysys.ErrNotDelivered) || !errors.Is(err, link.ErrReset) {
			t.Error(err)
		}
		_, err := a.Connect(t.Context(), "b", addr)
		if !errors.Is(err, link.ErrRefused) || errors.Is(err, link.ErrUnreachable) || time.Since(begin) != 0 {
			t.Error(err)
		}
	})
}

// TestSilent: a cut way ends nothing. Silence grows, suspicion is raised and taken back, what waited arrives, and a
// new connection is no proof of death.
func TestSilent(t *testing.T) {
	suspect := func(c *link.Config) {
		c.Suspect = func(p *link.Peer, silent bool) { c.Rejected("", p.Identity(), fmt.Errorf("silent %t", silent)) }
	}
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		pass(10 * time.Second)
		if s := p.Silence(); s > 500*time.Millisecond {
			t.Error("an idle peer is silent for", s)
		}
		if a.count("rejected") != 0 {
			t.Error(a.lines())
		}
		n.Cut("a", "b")
		pass(30 * time.Second)
		if s := p.Silence(); s < 29*time.Second || p.Err() != nil {
			t.Error(s, p.Err())
		}
		a.expect("rejected b: silent true")
		if n := a.count("rejected"); n != 1 {
			t.Errorf("suspicion was raised %d times", n)
		}
		if err := p.Send(wire.Requests, kindNote, []byte("late")); err != nil {
			t.Error(err)
		}
		p2 := b.Peer("a")
		p2.Close(errors.New("b gives up"))
		_, err := b.Connect(t.Context(), "a", a.Addr())
		if !errors.Is(err, link.ErrUnreachable) || errors.Is(err, link.ErrRefused) {
			t.Error(err)
		}
		if p.Err() != nil {
			t.Error("a end passed a cut way:", p.Err())
		}
		n.Heal("a", "b")
		<-p.Done()
		a.expect("down b(1): closed by the peer: b gives up")
	}, suspect)
}

// TestHeal: a session survives a cut, and everything arrives in order.
func TestHeal(t *testing.T) {
	for _, oneWay := range []bool{true, false} {
		t.Run(fmt.Sprintf("one way %t", oneWay), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
				if oneWay {
					n.CutOneWay("b", "a")
				} else {
					n.Cut("a", "b")
				}
				for i := range 50 {
					p.Send(wire.Requests, kindEcho, fmt.Appendf(nil, "%02d", i))
					pass(100 * time.Millisecond)
				}
				if a.count("b replies") != 0 {
					t.Error("replies passed the cut")
				}
				n.Heal("a", "b")
				synctest.Wait()
				var got []string
				for _, s := range a.lines() {
					if r, ok := strings.CutPrefix(s, "b replies: "); ok {
						got = append(got, r)
					}
				}
				if len(got) != 50 || got[0] != "00" || got[49] != "49" || a.count("down") != 0 {
					t.Error(got, a.count("down"))
				}
			})
		})
	}
}

// TestPaused: the dial of a stopped process connects and then hears nothing: no proof of anything.
func TestPaused(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Pause("b")
		p.Close(errors.New("silent for too long"))
		begin := time.Now()
		_, err := a.Connect(t.Context(), "b", b.Addr())
		if !errors.Is(err, link.ErrUnreachable) || time.Since(begin) != 5*time.Second {
			t.Error(err, time.Since(begin))
		}
		n.Resume("b")
		synctest.Wait()
		a.connect(b).Send(wire.Requests, kindEcho, []byte("hello"))
		a.expect("b replies: hello")
	})
}

// TestDelay: latency is what a round trip takes, and jitter does not reorder.
func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Delay("a", "b", 40*time.Millisecond, 0)
		begin := time.Now()
		p.Send(wire.Requests, kindEcho, []byte("x"))
		p.Flush()
		a.expect("b replies: x")
		if took := time.Since(begin); took != 80*time.Millisecond {
			t.Error(took)
		}
		pass(time.Second)
		if r := p.RoundTrip(); r != 80*time.Millisecond {
			t.Error("a ping took", r)
		}
		n.Delay("a", "b", time.Millisecond, 50*time.Millisecond)
		for i := range 100 {
			p.Send(wire.Requests, kindNote, fmt.Append(nil, i))
			pass(time.Millisecond)
		}
		pass(time.Second)
		at := 0
		for _, s := range b.lines() {
			if strings.HasPrefix(s, "a requests") {
				if s != fmt.Sprintf("a requests: %d", at) {
					t.Fatal(s, "came as number", at)
				}
				at++
			}
		}
		if at != 100 {
			t.Error(at, "frames came")
		}
	})
}

// TestChaos: frames are lost, doubled and overtaken as asked, and the session does not mind.
func TestChaos(t *testing.T) {
	script := []link.Action{link.Pass, link.Drop, link.Duplicate, link.Reorder, link.Pass, link.Reorder}
	at := 0
	chaos := func(c *link.Config) {
		if c.Self().Node == "a" {
			c.Chaos = func(to raysys.NodeID, class wire.Class, kind wire.Kind) link.Action {
				if to != "b" || class != wire.Requests || kind != kindNote {
					t.Error(to, class, kind)
				}
				at++
				return script[at-1]
			}
		}
	}
	bubble(t, func(t *testing.T, _ *linktest.Network, a, b *end, p *link.Peer) {
		for i := range script {
			p.Send(wire.Requests, kindNote, fmt.Append(nil, i))
		}
		pass(time.Second) // the last is held until a ping
		var got string
		for _, s := range b.lines() {
			if r, ok := strings.CutPrefix(s, "a requests: "); ok {
				got += r
			}
		}
		if got != "022435" {
			t.Error(got)
		}
	}, chaos)
}

// TestDialGivesUp: the caller's ctx ends its wait, not the attempt.
func TestDialGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		a, b := open(t, "a", n.Transport("a")), open(t, "b", n.Transport("b"))
		n.Cut("a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := a.Connect(ctx, "b", b.Addr()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Error(err, time.Since(begin))
		}
		n.Heal("a", "b")
		synctest.Wait()
		if a.Peer("b") == nil {
			t.Error("the attempt ended with its caller")
		}
		a.Close(context.Background())
		b.Close(context.Background())
	})
}

// TestSlowHandshake: somebody who connects and says nothing is dropped after the handshake's time.
func TestSlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		a := open(t, "a", n.Transport("a"))
		conn, err := n.Transport("x").Dial(t.Context(), a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begin := time.Now()
		if _, err := conn.Read(make([]byte, 100)); err == nil || time.Since(begin) != 5*time.Second {
			t.Error(err, time.Since(begin))
		}
		synctest.Wait()
		a.expect("rejected ")
		a.Close(context.Background())
	})
}

// TestCloseBreaksOff: a peer that takes nothing cannot hold up Close beyond its ctx or the linger.
func TestCloseBreaksOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, _ *end, p *link.Peer) {
		n.Cut("a", "b")
		for range 100 {
			p.Send(wire.Requests, kindNote, make([]byte, 10_000))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := a.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 300*time.Millisecond {
			t.Error(err, time.Since(begin))
		}
	})
	bubble(t, func(t *testing.T, n *linktest.Network, a, _ *end, p *link.Peer) {
		n.Cut("a", "b")
		begin := time.Now()
		if err := a.Close(t.Context()); err != nil || time.Since(begin) > 2*time.Second {
			t.Error(err, time.Since(begin))
		}
	})
}

// TestOwnPause: when this process did not run, the silence of others proves nothing and is counted from then on.
func TestOwnPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		stall := func(c *link.Config) {
			c.Suspect = func(p *link.Peer, silent bool) {
				if silent {
					<-time.After(10 * time.Second) // nothing is looked at meanwhile, as in a paused process
				}
			}
		}
		a, b := open(t, "a", n.Transport("a"), stall), open(t, "b", n.Transport("b"))
		p := a.connect(b)
		n.Cut("a", "b")
		pass(12500 * time.Millisecond)
		if s := p.Silence(); s > 2*time.Second {
			t.Error("silent for", s, "though this node was away most of that time")
		}
		pass(5 * time.Second)
		if s := p.Silence(); s < 5*time.Second {
			t.Error("silent for", s)
		}
		n.HealAll()
		a.Close(context.Background())
		b.Close(context.Background())
	})
}
