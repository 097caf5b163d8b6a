package grainengine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
)

// put records a placement as a leader did that has died since.
func (net *fakeNet) put(id graindir.ID, n *fakeNode) graindir.Place {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.seq++
	p := graindir.Place{NodeKey: core.NodeKey{Node: n.name, Incarnation: n.incarnation}, Token: graindir.Token{Epoch: 1, Seq: net.seq}}
	net.places[id] = p
	return p
}

// slowly holds the answers to op until the returned function is called.
func (net *fakeNet) slowly(op string) (let func()) {
	gate := make(chan struct{})
	net.mu.Lock()
	defer net.mu.Unlock()
	net.slow = func(o string) <-chan struct{} {
		if o == op {
			return gate
		}
		return nil
	}
	return sync.OnceFunc(func() { close(gate) })
}

// TestConfirmOnce: a placement whose activation never came about is confirmed once and then activated under that token,
// however many calls arrive meanwhile; their order holds (rule C19).
func TestConfirmOnce(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	id := idOf(r.kind.Get("x"))
	place := r.net.put(id, b)
	let := r.net.slowly("confirm")
	defer let()
	ctx := a.context()
	var want []int
	for i := range 50 {
		r.note.Call(ctx, r.kind.Get("x"), i)
		want = append(want, i)
	}
	nodetest.Eventually(t, "b asks", func() bool { return r.net.pending() == 1 })
	if b.engine.Activations("rover") != 0 {
		t.Error("it is active before the leader confirmed it")
	}
	let()
	got, err := r.noted.Call(ctx, r.kind.Get("x")).Get(ctx)
	if err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
	if n := r.net.count("confirm"); n != 1 {
		t.Error(n, "confirmations")
	}
	if r.net.placeOf(id) != place {
		t.Error("the placement changed")
	}
}

// TestMovedIsFollowed: a caller whose placement is out of date is sent on, and its call runs once.
func TestMovedIsFollowed(t *testing.T) {
	for _, how := range []string{"gone", "elsewhere", "to the caller", "newer here"} {
		t.Run(how, func(t *testing.T) {
			r := newRovers(t)
			a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
			r.on(b)
			ctx := a.context()
			g := r.kind.Get("x")
			wants(t, ctx, r.add.Call(ctx, g, 1), 1)
			// b lets it go, and a does not know.
			if _, err := r.quit.Call(b.context(), g).Get(b.context()); err != nil {
				t.Error(err)
			}
			nodetest.Eventually(t, "b lets it go", func() bool { return r.net.placeOf(idOf(g)).IsZero() })
			var sent atomic.Int32
			r.net.watch(func(from *fakeNode, kind wire.Kind) {
				if from == a && kind == wire.KindCall {
					sent.Add(1)
				}
			})
			at := "b"
			switch how {
			case "gone":
				r.on(c)
				at = "c"
			case "elsewhere":
				r.net.put(idOf(g), c)
				at = "c"
			case "to the caller":
				r.net.put(idOf(g), a)
				at = "a"
			case "newer here":
				wants(t, b.context(), r.add.Call(b.context(), g, 5), 5)
			}
			v, err := r.add.Call(ctx, g, 1).Get(ctx)
			if want := map[bool]int{true: 6, false: 1}[how == "newer here"]; err != nil || v != want {
				t.Errorf("%d, %v; want %d", v, err, want)
			}
			if n := sent.Load(); how == "newer here" && n != 2 {
				t.Errorf("the call went out %d times, want 2: an activation newer than the call must refuse it, and the caller send it anew under that token", n)
			}
			wants(t, ctx, r.where.Call(ctx, g), at)
		})
	}
}

// watch calls f for each frame that is delivered from now on.
func (net *fakeNet) watch(f func(from *fakeNode, kind wire.Kind)) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.onWire = func(_ *fakeLink, from *fakeNode, kind wire.Kind, _ []byte) { f(from, kind) }
}

// TestHeldCallsKeepTheirOrder: a call under a newer token makes the activation stale while calls wait in its mailbox.
// Those whose turn comes before the activation stops are held; the next activation runs them before what came later
// (rule C5).
func TestHeldCallsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		a, b := r.net.add("a"), r.net.add("b")
		r.on(b)
		ctx, here := a.context(), b.context()
		g := r.kind.Get("x")
		gate := r.gate.Call(here, g)
		<-r.entered
		r.note.Call(here, g, 1)
		r.note.Call(here, g, 2)
		r.net.put(idOf(g), b)
		r.note.Call(ctx, g, 3) // under the newer token
		synctest.Wait()        // it is in the mailbox, behind what stops the activation
		r.note.Call(here, g, 4)
		close(r.leave)
		if _, err := gate.Get(here); err != nil {
			t.Error(err)
		}
		got, err := r.noted.Call(here, g).Get(here)
		if err != nil || !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("the next activation ran %v, %v; want [1 2 3 4]: the calls that the stale one held go before later ones", got, err)
		}
	})
}

// TestNewerToken: a call under a newer token proves the activation stale: it stops, OnDeactivate included, and the new
// one takes the call.
func TestNewerToken(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	log := make(chan string, 10)
	k := grains.DefineIn[logged](tb, "logged")
	set := grains.Method(k, "set", func(g *logged, _ context.Context, v int) (int, error) {
		g.log, g.v = log, v
		return v, nil
	})
	get := grains.Method0(k, "get", func(g *logged, _ context.Context) (int, error) { return g.v, nil })
	a, b := net.add("a"), net.add("b")
	net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return b }
	ctx := b.context()
	g := k.Get("x")
	wants(t, ctx, set.Call(ctx, g, 7), 7)
	wants(t, ctx, get.Call(ctx, g), 7)
	net.put(idOf(g), b)
	v, err := get.Call(a.context(), g).Get(a.context())
	if err != nil || v != 0 {
		t.Fatalf("a call under a newer token got %d, %v: the stale activation, which has 7, must stop and a new one take the call", v, err)
	}
	if got := nodetest.Arrive(t, log, "OnDeactivate of the activation that a newer token proved stale"); got != "end 7" {
		t.Errorf("OnDeactivate of the stale activation says %q, want %q", got, "end 7")
	}
	wants(t, ctx, get.Call(ctx, g), 0)
	if n := b.engine.Activations("logged"); n != 1 {
		t.Errorf("the grain has %d activations after a newer token, want 1", n)
	}
}

type logged struct {
	log chan string
	v   int
}

func (l *logged) OnDeactivate(context.Context) error {
	if l.log != nil {
		l.log <- fmt.Sprintf("end %d", l.v)
	}
	return nil
}

// TestPassivationReleases: the placement goes with the activation, after OnDeactivate; calls that come meanwhile, here
// and from elsewhere, wait for that and then find the grain.
func TestPassivationReleases(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx, here := a.context(), b.context()
	g := r.kind.Get("x")
	wants(t, ctx, r.add.Call(ctx, g, 1), 1)
	old := r.net.placeOf(idOf(g))
	let := r.net.slowly("release")
	defer let()
	if _, err := r.quit.Call(ctx, g).Get(ctx); err != nil {
		t.Error(err)
	}
	nodetest.Eventually(t, "the activation is gone", func() bool { return b.engine.Activations("rover") == 0 && r.net.pending() == 1 })
	far, near := r.add.Call(ctx, g, 1), r.add.Call(here, g, 1)
	if b.engine.Activations("rover") != 0 {
		t.Error("it is back under a token that is being released")
	}
	let()
	x, err1 := far.Get(ctx)
	y, err2 := near.Get(here)
	if err1 != nil || err2 != nil || x+y != 3 {
		t.Error(x, err1, y, err2)
	}
	if now := r.net.placeOf(idOf(g)); !now.Token.Newer(old.Token) {
		t.Error("the placement is", now, "and was", old)
	}
}

// TestReleaseIsRepeated: a registry that cannot be reached is asked again; until it answered the token is not used.
func TestReleaseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, b, ctx := apart(t)
		g := r.kind.Get("x")
		wants(t, ctx, r.add.Call(ctx, g, 1), 1)
		left := 5
		r.net.mu.Lock()
		r.net.fault = func(op string, _ *fakeNode, _ graindir.ID) error {
			if op == "release" && left > 0 {
				left--
				return raysys.ErrNotDelivered
			}
			return nil
		}
		r.net.mu.Unlock()
		begin := time.Now()
		if _, err := r.quit.Call(ctx, g).Get(ctx); err != nil {
			t.Error(err)
		}
		nodetest.Eventually(t, "the activation is gone", func() bool { return b.engine.Activations("rover") == 0 })
		wants(t, ctx, r.add.Call(ctx, g, 1), 1)
		if took := time.Since(begin); took < 200*time.Millisecond {
			t.Error("the grain was back after", took)
		}
		if n := r.net.count("release"); n != 6 {
			t.Error(n, "releases")
		}
	})
}

// TestIdleReleases: idle grains leave no placement behind.
func TestIdleReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t, grains.IdleAfter(time.Second))
		a := r.net.add("a")
		r.net.add("b")
		ctx := a.context()
		for i := range 20 {
			wants(t, ctx, r.add.Call(ctx, r.kind.Get(fmt.Sprint(i)), 1), 1)
		}
		<-time.After(3 * time.Second)
		r.net.mu.Lock()
		defer r.net.mu.Unlock()
		if n := len(r.net.places); n != 0 {
			t.Error(n, "placements are left")
		}
	})
}

// TestSuspended: while the lease is out named grains refuse, at the grain's node and at one that must look them up;
// stateless workers go on, and afterwards the memory is what it was.
func TestSuspended(t *testing.T) {
	r := newRovers(t)
	pool := grains.DefineIn[rover](r.net.table, "pool", grains.StatelessWorker(1))
	work := grains.Method(pool, "add", func(g *rover, _ context.Context, d int) (int, error) { return d, nil })
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx, here := a.context(), b.context()
	g := r.kind.Get("x")
	wants(t, ctx, r.add.Call(ctx, g, 1), 1)
	b.suspend(true)
	nodetest.Fails(t, ctx, r.add.Call(ctx, g, 1), raysys.ErrSuspended)
	nodetest.Fails(t, here, r.add.Call(here, g, 1), raysys.ErrSuspended)
	nodetest.Fails(t, here, r.add.Call(here, r.kind.Get("other"), 1), raysys.ErrSuspended)
	wants(t, here, work.Call(here, pool.Get(""), 4), 4)
	b.suspend(false)
	wants(t, here, r.add.Call(here, g, 1), 2)
	wants(t, ctx, r.add.Call(ctx, g, 1), 3)
}
