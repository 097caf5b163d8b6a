package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
)

// TestLostPeer: a call that was sent and not answered fails at once, with its name, its node and ErrOutcomeUnknown.
func TestLostPeer(t *testing.T) {
	r, a, b, ctx := apart(t)
	f := r.gate.Call(ctx, r.kind.Get("x"))
	<-r.entered
	r.net.linkBetween(a, b).cut(errors.New("cable"))
	err := nodetest.Fails(t, ctx, f, raysys.ErrOutcomeUnknown)
	for _, word := range []string{"rover/x.gate", "node b", "cable"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	// The node lives, and so does the grain there.
	close(r.leave)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	wants(t, ctx, r.where.Call(ctx, r.kind.Get("x")), "b")
}

// TestLostPeerIdempotent: a call of an idempotent method is repeated where the grain is by then.
func TestLostPeerIdempotent(t *testing.T) {
	r := newRovers(t)
	a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
	r.on(b)
	ctx := a.context()
	f := r.gate.Idempotent().Call(ctx, r.kind.Get("x"))
	<-r.entered
	r.on(c)
	b.kill()
	<-r.entered
	close(r.leave)
	if _, err := f.Get(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, r.where.Call(ctx, r.kind.Get("x")), "c")
}

// TestNotSentIsFollowed: calls that did not leave, since there was no connection or the peer refused them, go to where
// the grain is.
func TestNotSentIsFollowed(t *testing.T) {
	t.Run("no connection", func(t *testing.T) {
		r := newRovers(t)
		a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
		r.on(b)
		gate := make(chan struct{})
		r.net.slow = func(op string) <-chan struct{} {
			if op == "connect" {
				return gate
			}
			return nil
		}
		ctx := a.context()
		var refs []raysys.Ref[int]
		for i := range 10 {
			refs = append(refs, r.note.Call(ctx, r.kind.Get("x"), i))
		}
		r.on(c)
		b.kill()
		close(gate)
		for i, f := range refs {
			wants(t, ctx, f, i)
		}
		wants(t, ctx, r.where.Call(ctx, r.kind.Get("x")), "c")
	})
	t.Run("peer refuses", func(t *testing.T) {
		r := newRovers(t)
		a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
		r.on(b)
		ctx := a.context()
		wants(t, ctx, r.note.Call(ctx, r.kind.Get("x"), 1), 1)
		// The link is down, and this engine was not told yet.
		p := a.Peer(core.NodeKey{Node: "b", Incarnation: 1}).(*fakePeer)
		p.twin.mu.Lock()
		p.twin.closed = true
		p.twin.mu.Unlock()
		f := r.note.Call(ctx, r.kind.Get("x"), 2)
		r.on(c)
		b.kill()
		wants(t, ctx, f, 2)
		wants(t, ctx, r.where.Call(ctx, r.kind.Get("x")), "c")
	})
}

// TestAvoid: who could not reach a place says so when it asks again.
func TestAvoid(t *testing.T) {
	r, _, b, ctx := apart(t)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	old := r.net.placeOf(idOf(r.kind.Get("x")))
	b.cut(errors.New("cable"))
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 2)
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if got := r.net.avoids; len(got) != 2 || !got[0].IsZero() || got[1] != old {
		t.Errorf("avoided %v, want none and then %v", got, old)
	}
}

// TestUnreachable: a node that cannot be dialled ends calls with ErrNotDelivered, after a bounded number of tries.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		a, b := r.net.add("a"), r.net.add("b")
		r.on(b)
		tries := 0
		r.net.fault = func(op string, _ *fakeNode, _ graindir.ID) error {
			if op == "connect" {
				tries++
				return errors.New("no route to host")
			}
			return nil
		}
		ctx := a.context()
		begin := time.Now()
		err := nodetest.Fails(t, ctx, r.add.With(raysys.NoDeadline()).Call(ctx, r.kind.Get("x"), 1), raysys.ErrNotDelivered)
		if !strings.Contains(err.Error(), "no route to host") || !strings.Contains(err.Error(), "node b") {
			t.Error(err)
		}
		if took := time.Since(begin); tries != 17 || took < time.Second || took > 10*time.Second {
			t.Error(tries, "tries in", took)
		}
		// The deadline ends it before.
		begin = time.Now()
		nodetest.Fails(t, ctx, r.add.With(raysys.Deadline(time.Second)).Call(ctx, r.kind.Get("x"), 1), raysys.ErrDeadline)
		if took := time.Since(begin); took < time.Second || took >= 2*time.Second {
			t.Error("the deadline of 1 s came after", took)
		}
		r.net.mu.Lock()
		r.net.fault = nil
		r.net.mu.Unlock()
		wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	})
}

// TestUnreachableWhileSuspended: a call that does not reach its node is not sent again by a node that is suspended meanwhile, and the error
// says both.
func TestUnreachableWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		a, b := r.net.add("a"), r.net.add("b")
		r.on(b)
		r.net.fault = func(op string, n *fakeNode, _ graindir.ID) error {
			if op == "connect" {
				n.suspend(true)
				return raysys.ErrNotDelivered
			}
			return nil
		}
		ctx := a.context()
		err := nodetest.Fails(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), raysys.ErrSuspended)
		if !errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(err)
		}
	})
}

// TestMadeBeforeSuspension: a durable call that was made before its node was lost may have counted. Where this node does
// not reach the grain again and is suspended meanwhile, the error says so, and not that the call did not run.
func TestMadeBeforeSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVaults(t)
		a, b := v.net.add("a"), v.net.add("b")
		ctx := a.context()
		g := v.kind.Get("x")
		v.net.put(idOf(g), b)
		wants(t, ctx, v.add.Call(ctx, g, 1), 1)
		let := v.net.slowly("commit")
		f := v.add.Call(ctx, g, 10)
		synctest.Wait() // it commits
		v.net.mu.Lock()
		v.net.fault = func(op string, n *fakeNode, _ graindir.ID) error {
			if op == "connect" {
				n.suspend(true)
				return raysys.ErrNotDelivered
			}
			return nil
		}
		v.net.mu.Unlock()
		b.cut(errors.New("reset by test"))
		let()
		err := nodetest.Fails(t, ctx, f, raysys.ErrOutcomeUnknown)
		if !errors.Is(err, raysys.ErrSuspended) || errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(err)
		}
		a.suspend(false)
		v.net.mu.Lock()
		v.net.fault = nil
		v.net.mu.Unlock()
		wants(t, ctx, v.get.Call(ctx, g), 11)
	})
}

// TestRegistryErrors: what the registry cannot do is the call's error, named; what may pass is tried again.
func TestRegistryErrors(t *testing.T) {
	r := newRovers(t)
	a := r.net.add("a")
	r.net.add("b")
	ctx := a.context()
	left := 3
	r.net.fault = func(op string, _ *fakeNode, id graindir.ID) error {
		switch {
		case op == "locate" && id.Key == "never":
			return raysys.ErrNoCapacity
		case op == "locate" && left > 0:
			left--
			return raysys.ErrOverloaded
		}
		return nil
	}
	err := nodetest.Fails(t, ctx, r.add.Call(ctx, r.kind.Get("never"), 1), raysys.ErrNoCapacity)
	if !strings.Contains(err.Error(), "rover/never") {
		t.Error(err)
	}
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("later"), 1), 1)
}

// TestFullLink: a link that takes no more refuses calls, and tells callers of answers that it could not carry.
func TestFullLink(t *testing.T) {
	r, a, b, ctx := apart(t)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	fill := func(n, to *fakeNode, full bool) {
		p := n.Peer(core.NodeKey{Node: to.name, Incarnation: 1}).(*fakePeer)
		p.mu.Lock()
		p.full = full
		p.mu.Unlock()
	}
	fill(a, b, true)
	nodetest.Fails(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), raysys.ErrOverloaded)
	fill(a, b, false)
	f := r.gate.Call(ctx, r.kind.Get("x"))
	<-r.entered
	fill(b, a, true)
	close(r.leave)
	err := nodetest.Fails(t, ctx, f, raysys.ErrOutcomeUnknown)
	if !errors.Is(err, raysys.ErrOverloaded) {
		t.Error(err)
	}
	fill(b, a, false)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 2)
}

// TestLargeIsNotSent: the bulk connection refuses the argument, so the call fails and holds up nobody.
func TestLargeIsNotSent(t *testing.T) {
	r, a, b, ctx := apart(t)
	wants(t, ctx, r.note.Call(ctx, r.kind.Get("x"), 1), 1)
	refuseLarge(a, b, 2) // as it is pushed, and as it is asked for
	f := r.big.Call(ctx, r.kind.Get("x"), make([]byte, 100_000))
	g := r.note.Call(ctx, r.kind.Get("x"), 2)
	nodetest.Fails(t, ctx, f, raysys.ErrOverloaded)
	wants(t, ctx, g, 2)
}

// TestLargeWaiterGoes: a caller that goes after its call was put in line holds up nobody else's, whether its argument is on its way or
// has to be asked for.
func TestLargeWaiterGoes(t *testing.T) {
	for _, how := range []string{"cancel", "peer down"} {
		for _, size := range []int{100_000, 2 << 20} {
			t.Run(fmt.Sprintf("%s/%d", how, size), func(t *testing.T) {
				r, a, b, ctx := apart(t)
				wants(t, ctx, r.note.Call(ctx, r.kind.Get("x"), 1), 1)
				stop, held := make(chan struct{}), make(chan struct{}, 1)
				r.net.mu.Lock()
				r.net.onWire = func(l *fakeLink, from *fakeNode, kind wire.Kind, f []byte) {
					if kind == wire.KindCallResult && from == b && f[len(f)-1] == 3 || kind == wire.KindCall && from == a && len(f) > 65536 {
						held <- struct{}{}
						<-stop // the argument is wanted, and is not heard of
					}
				}
				r.net.mu.Unlock()
				f := r.big.Call(ctx, r.kind.Get("x"), make([]byte, size))
				g := r.note.Call(ctx, r.kind.Get("x"), 2)
				<-held
				if how == "cancel" {
					f.Cancel()
					close(stop)
					wants(t, ctx, g, 2)
				} else {
					go close(stop)
					r.net.linkBetween(a, b).cut(errors.New("cable"))
				}
				ctx = b.context()
				wants(t, ctx, r.note.Call(ctx, r.kind.Get("x"), 3), 3)
			})
		}
	}
}

// TestFarCancel: cancelling a call's future, or the context it was made under, ends it on the other node.
func TestFarCancel(t *testing.T) {
	for _, how := range []string{"ref", "context", "deadline"} {
		t.Run(how, func(t *testing.T) {
			r := newRovers(t)
			a, b := r.net.add("a"), r.net.add("b")
			r.on(b)
			outer, cancel := context.WithCancel(context.Background())
			defer cancel()
			ctx := a.under(outer)
			gate := r.gate
			if how == "deadline" {
				gate = gate.With(raysys.Deadline(50_000_000))
			}
			f := gate.Call(ctx, r.kind.Get("x"))
			there := <-r.entered
			want := raysys.ErrCancelled
			switch how {
			case "ref":
				f.Cancel()
			case "context":
				cancel()
			case "deadline":
				want = raysys.ErrDeadline
			}
			<-there.Done()
			if how != "context" {
				nodetest.Fails(t, ctx, f, want)
			}
			free := a.context()
			wants(t, free, r.add.Call(free, r.kind.Get("x"), 1), 1)
		})
	}
}

// TestEarlyCancel: a cancellation that overtakes its call keeps it from running.
func TestEarlyCancel(t *testing.T) {
	r, a, _, ctx := apart(t)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	p := a.Peer(core.NodeKey{Node: "b", Incarnation: 1}).(*fakePeer).twin
	p.pause(true)
	f := r.add.Call(ctx, r.kind.Get("x"), 10)
	f.Cancel()
	p.pause(false) // control frames come out first
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 2)
}
