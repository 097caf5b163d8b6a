package link_test

import (
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

// TestNoClassWaits: with the credits of requests spent, and then of replies, what comes before them passes (rule C6).
func TestNoClassWaits(t *testing.T) {
	narrow := func(c *link.Config) {
		c.Window = [3]int{64 << 10, 64 << 10, 64 << 10}
	}
	bubble(t, func(t *testing.T, _ *linktest.Network, a, b *end, p *link.Peer) {
		q := b.Peer("a")
		q.Pause(wire.Requests)
		sent := 0
		fill := func(class wire.Class) {
			for range 100 {
				if err := p.Send(class, kindNote, []byte(strings.Repeat("x", 10_000))); err != nil {
					t.Fatal(err)
				}
				sent++
			}
			synctest.Wait()
		}
		fill(wire.Requests)
		came := b.count("a requests")
		if came == 0 || came > 13 || p.Waiting(wire.Requests) < 80*10_000 {
			t.Errorf("%d of %d requests came through a window of 64 KiB, %d bytes wait", came, sent, p.Waiting(wire.Requests))
		}
		p.Send(wire.Replies, kindNote, []byte("a reply"))
		p.Send(wire.Control, kindNote, []byte("a cancel"))
		synctest.Wait()
		b.expect("a replies: a reply", "a control: a cancel")
		q.Pause(wire.Replies)
		fill(wire.Replies)
		q.Pause(wire.Control)
		fill(wire.Control)
		pass(10 * time.Second)
		// Even without any credits the link's own frames pass: nobody takes the peer for dead.
		if s := p.Silence(); s > time.Second {
			t.Error("silent for", s)
		}
		for c := range wire.Bulk {
			q.Resume(c)
			synctest.Wait()
			if n := b.count("a " + c.String() + ": 10000"); n != 100 {
				t.Errorf("%d of 100 %s came", n, c)
			}
		}
	}, narrow)
}

// TestPriority: what was queued while the way was blocked leaves in the order of classes.
func TestPriority(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, _, b *end, p *link.Peer) {
		n.CutOneWay("a", "b")
		// The socket takes 256 KiB and the write under way 256 more; the rest still waits when the others are sent.
		for i := range 100 {
			p.Send(wire.Requests, kindNote, fmt.Appendf(nil, "r%0*d", 20_000, i))
		}
		pass(time.Second)
		p.Send(wire.Replies, kindNote, []byte("reply"))
		p.Send(wire.Control, kindNote, []byte("cancel"))
		n.Heal("a", "b")
		synctest.Wait()
		var order []string
		for _, s := range b.lines() {
			switch {
			case strings.HasPrefix(s, "a requests"):
				order = append(order, "request")
			case s == "a replies: reply":
				order = append(order, "reply")
			case s == "a control: cancel":
				order = append(order, "cancel")
			}
		}
		text := strings.Join(order, " ")
		if len(order) != 102 || !strings.Contains(text, "request cancel reply request") {
			t.Error(text)
		}
		if i := strings.Index(text, "cancel"); i > 45*len("request ") {
			t.Error("the cancellation waited for", i/len("request "), "requests")
		}
	})
}

// TestOverload: requests beyond the bound are refused and the session goes on; replies have a reserve of their own, and
// a peer that does not take even those is given up.
func TestOverload(t *testing.T) {
	tight := func(c *link.Config) { c.Queue = [3]int{1 << 20, 1 << 20, 1 << 20} }
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Cut("a", "b")
		payload := make([]byte, 10_000)
		fill := func(class wire.Class) (sent int, err error) {
			for err == nil && sent < 1000 {
				if err = p.Send(class, kindNote, payload); err == nil {
					sent++
				}
			}
			return sent, err
		}
		sent, err := fill(wire.Requests)
		if sent < 100 || sent > 200 || !errors.Is(err, raysys.ErrOverloaded) || errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(sent, err)
		}
		if p.Err() != nil {
			t.Error("too many requests ended the session:", p.Err())
		}
		sent, err = fill(wire.Replies)
		if sent < 100 || !errors.Is(err, raysys.ErrNotDelivered) || !errors.Is(err, link.ErrStuck) {
			t.Error(sent, err)
		}
		<-p.Done()
		a.expect("down b(1): peer takes nothing")
	}, tight)
}

// TestSteady: far more than the window passes, both ways at once.
func TestSteady(t *testing.T) {
	narrow := func(c *link.Config) {
		c.Window = [3]int{4 << 10, 4 << 10, 4 << 10}
		c.Queue[wire.Replies] = 1 << 20
	}
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a, b := open(t, "a", transport("a"), narrow), open(t, "b", transport("b"), narrow)
		p := a.connect(b)
		b.expect("up a")
		q := b.Peer("a")
		for i := range 300 {
			for class := range wire.Bulk {
				if err := p.Send(class, kindNote, fmt.Appendf(nil, "%039d", i)); err != nil {
					t.Fatal(err)
				}
				if err := q.Send(class, kindNote, fmt.Appendf(nil, "%039d", i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		last := fmt.Sprintf("%039d", 299)
		a.expect("b control: "+last, "b replies: "+last, "b requests: "+last)
		b.expect("a control: "+last, "a replies: "+last, "a requests: "+last)
	})
}
