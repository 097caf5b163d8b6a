package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// TestLaterEndsWithItsActivation: what a grain has not settled when it goes fails with ErrUnsettled, or is made again where the method
// is idempotent, on the caller's node and another.
func TestLaterEndsWithItsActivation(t *testing.T) {
	r := newKeepers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	for _, n := range []*fakeNode{b, a} {
		ctx, x := n.context(), r.kind.Get("x")
		once, again := r.keep.Call(ctx, x, 0), r.keep.Idempotent().Call(ctx, x, 0)
		tried := r.keep.Idempotent().With(raysys.Retries(1)).Call(ctx, x, 0)
		l := []*grains.Later[int]{r.next(t), r.next(t), r.next(t)}
		ends(t, ctx, r.quit.Call(ctx, x))
		if err := nodetest.Fails(t, ctx, once, grains.ErrUnsettled); !errors.Is(err, raysys.ErrOutcomeUnknown) {
			t.Error("its outcome is known:", err)
		}
		second := []*grains.Later[int]{r.next(t), r.next(t)}
		for _, l := range l {
			refuses(t, l, grains.ErrUnsettled)
			contextEnds(t, l.Context(), nil)
		}
		for i, l := range second {
			if err := l.Settle(3 + i); err != nil {
				t.Error(err)
			}
		}
		for _, f := range []raysys.Ref[int]{again, tried} {
			if v, err := f.Get(ctx); v != 3 && v != 4 || err != nil {
				t.Error(v, err)
			}
		}
	}
}

// TestLaterIsDrained: a drain does not wait for kept calls; idempotent ones go with their grain, from any node.
func TestLaterIsDrained(t *testing.T) {
	r := newKeepers(t)
	a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
	r.on(b)
	x := r.kind.Get("x")
	type asked struct {
		ctx         context.Context
		once, again raysys.Ref[int]
	}
	var all []asked
	for _, n := range []*fakeNode{a, b, c} {
		ctx := n.context()
		all = append(all, asked{ctx, r.keep.Call(ctx, x, 0), r.keep.Idempotent().Call(ctx, x, 0)})
		r.next(t)
		r.next(t)
	}
	r.on(c)
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	if err := b.drain(ctx); err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		nodetest.Fails(t, k.ctx, k.once, grains.ErrUnsettled)
		if err := r.next(t).Settle(9); err != nil {
			t.Error(err)
		}
	}
	for _, k := range all {
		wants(t, k.ctx, k.again, 9)
	}
}

// TestLaterIsDrainedAtOnce: a turn that waits for a call which its own grain keeps does not hold up the drain, also where that is kept
// after the drain has begun.
func TestLaterIsDrainedAtOnce(t *testing.T) {
	r := newKeepers(t)
	x := r.kind.Get("x")
	inside, drains := make(chan struct{}), make(chan struct{})
	slow := grains.LaterMethod(r.kind, "slow", func(_ *rover, _ context.Context, _ int, _ *grains.Later[int]) error {
		close(inside)
		<-drains
		return nil
	}).Reentrant()
	waits := grains.Action0(r.kind, "waits", func(_ *rover, ctx context.Context) error {
		_, err := slow.Call(ctx, x, 0).Get(ctx)
		return err
	})
	b, c := r.net.add("b"), r.net.add("c")
	r.on(b)
	before := r.keep.Call(b.context(), x, 0)
	r.next(t)
	f := waits.Call(b.context(), x)
	nodetest.Arrive(t, inside, "the call that comes back is let in")
	r.on(c)
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- b.drain(ctx) }()
	nodetest.Fails(t, b.context(), before, grains.ErrUnsettled)
	close(drains)
	if err := nodetest.Arrive(t, drained, "the drain ends"); err != nil {
		t.Error(err)
	}
	nodetest.Fails(t, b.context(), f, grains.ErrUnsettled)
}

// TestLaterOfADeadNode: an idempotent call whose grain kept it on a node that dies is made again, and another fails.
func TestLaterOfADeadNode(t *testing.T) {
	r := newKeepers(t)
	a, b, c := r.net.add("a"), r.net.add("b"), r.net.add("c")
	r.on(b)
	ctx, x := a.context(), r.kind.Get("x")
	once, again := r.keep.Call(ctx, x, 0), r.keep.Idempotent().Call(ctx, x, 0)
	l := []*grains.Later[int]{r.next(t), r.next(t)}
	r.on(c)
	b.kill()
	if err := nodetest.Fails(t, ctx, once, raysys.ErrOutcomeUnknown); errors.Is(err, grains.ErrUnsettled) {
		t.Error(err)
	}
	for _, l := range l { // the caller's node is gone for b
		contextEnds(t, l.Context(), raysys.ErrCancelled)
		refuses(t, l, raysys.ErrCancelled)
	}
	if err := r.next(t).Settle(6); err != nil {
		t.Error(err)
	}
	wants(t, ctx, again, 6)
}

// TestLaterAgainAndAgain: a grain that always goes without settling its calls is not called for ever.
func TestLaterAgainAndAgain(t *testing.T) {
	r := newKeepers(t)
	n := 0
	gone := grains.LaterMethod(r.kind, "gone", func(_ *rover, ctx context.Context, _ int, _ *grains.Later[int]) error {
		n++
		return grains.Deactivate(ctx)
	}).Idempotent()
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	nodetest.Fails(t, b.context(), gone.Call(b.context(), r.kind.Get("x"), 0), grains.ErrUnsettled)
	if _, err := gone.Call(a.context(), r.kind.Get("y"), 0).Get(a.context()); !errors.Is(err, raysys.ErrNotDelivered) && !errors.Is(err, raysys.ErrMoved) {
		t.Error(err)
	}
	if n < 20 || n > 60 {
		t.Error("it was called", n, "times")
	}
}

// TestLaterKeepsAwake: an activation is not idle while it keeps a call, and then for its idle time.
func TestLaterKeepsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked(grains.IdleAfter(time.Second))
		var later *grains.Later[int]
		keep := grains.LaterMethod(h.kind, "keep", func(_ *hooked, _ context.Context, _ int, l *grains.Later[int]) error { later = l; return nil })
		n, ctx := nodetest.Start(t, system.Config{Table: h.table})
		f := keep.With(raysys.NoDeadline()).Call(ctx, h.kind.Get("a"), 0)
		pass(time.Hour)
		if engineOf(n).Activations("hooked") != 1 {
			t.Fatal("it went")
		}
		if err := later.Settle(3); err != nil {
			t.Error(err)
		}
		wants(t, ctx, f, 3)
		pass(time.Second - time.Millisecond)
		h.want(t, "activate a")
		pass(time.Second/8 + time.Millisecond)
		h.want(t, "activate a", "deactivate a after 0")

		f = keep.Call(ctx, h.kind.Get("a"), 0)
		pass(29 * time.Second)
		h.want(t, "activate a", "deactivate a after 0", "activate a")
		pass(4 * time.Second) // its deadline, and the idle time
		h.want(t, "activate a", "deactivate a after 0", "activate a", "deactivate a after 0")
		nodetest.Fails(t, ctx, f, raysys.ErrDeadline)
	})
}

// closing is a grain that settles what it has kept when it goes.
type closing struct{ kept *grains.Later[int] }

func (c *closing) OnDeactivate(context.Context) error { return c.kept.Settle(4) }

// TestLaterInOnDeactivate: OnDeactivate may settle what the grain keeps.
func TestLaterInOnDeactivate(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[closing](tb, "closing")
	keep := grains.LaterMethod(k, "keep", func(c *closing, ctx context.Context, _ int, l *grains.Later[int]) error {
		c.kept = l
		return grains.Deactivate(ctx)
	})
	ctx := nodetest.Driver(t, tb)
	wants(t, ctx, keep.Call(ctx, k.Get("x"), 0), 4)
}

// TestLaterRestarts: a panic that gives the activation a new G ends what the old one kept.
func TestLaterRestarts(t *testing.T) {
	r := newKeepers(t, grains.OnPanic(grains.RestartOnPanic))
	a := r.net.add("a")
	r.on(a)
	ctx, x := a.context(), r.kind.Get("x")
	f := r.keep.Call(ctx, x, 0)
	l := r.next(t)
	_, _ = r.boom.Call(ctx, x).Get(ctx)
	nodetest.Fails(t, ctx, f, grains.ErrUnsettled)
	refuses(t, l, grains.ErrUnsettled)
}

// TestLaterHoldsItsResources: an activation that others wait for does not go while it keeps a call, and goes when that is settled.
func TestLaterHoldsItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked(grains.Holds(raysys.Resource("licence", 1)))
		kept := make(chan *grains.Later[int], 1)
		keep := grains.LaterMethod(h.kind, "keep", func(_ *hooked, _ context.Context, _ int, l *grains.Later[int]) error { kept <- l; return nil })
		_, ctx := nodetest.Start(t, system.Config{Table: h.table, Resources: raysys.Resources{CPU: 2, Custom: map[string]float64{"licence": 1}}})
		f := keep.With(raysys.NoDeadline()).Call(ctx, h.kind.Get("a"), 0)
		l := <-kept
		g := h.add.With(raysys.NoDeadline()).Call(ctx, h.kind.Get("b"), 1) // waits for what a holds
		pass(10 * time.Second)
		h.want(t, "activate a")
		_ = l.Settle(1)
		pass(time.Second)
		h.want(t, "activate a", "deactivate a after 0", "activate b")
		wants(t, ctx, f, 1)
		wants(t, ctx, g, 1)
	})
}

// TestLaterRaces: whatever settles, fails, cancels and ends a call at the same time, it has one outcome, and at most one of those who
// settle it is told that he did.
func TestLaterRaces(t *testing.T) {
	r := newKeepers(t)
	values := grains.LaterMethod(r.kind, "values", func(_ *rover, ctx context.Context, n int, l *grains.Later[[]int]) error {
		var all sync.WaitGroup
		won := make(chan int, 4)
		for i := range 3 {
			all.Go(func() {
				if l.Settle([]int{n, i}) == nil {
					won <- i
				}
			})
		}
		all.Go(func() {
			<-l.Context().Done()
			if l.Fail(errTooFar) == nil {
				won <- 3
			}
		})
		go func() {
			all.Wait()
			if len(won) > 1 {
				t.Error(len(won), "settled it")
			}
		}()
		switch n % 4 {
		case 0:
			return errTooFar
		case 1:
			return grains.Deactivate(ctx)
		}
		return nil
	})
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	var all sync.WaitGroup
	for i := range 200 {
		n := []*fakeNode{a, b}[i%2]
		ctx := n.context()
		m := values
		if i%3 == 0 {
			m = m.Idempotent()
		}
		f := m.With(raysys.Deadline(10*time.Second)).Call(ctx, r.kind.Get(fmt.Sprint(i%7)), i/2)
		all.Go(func() {
			if i%5 == 0 {
				f.Cancel()
			}
			v, err := f.Get(ctx)
			if err == nil && (len(v) != 2 || v[0] != i/2) {
				t.Error(v)
			}
			for _, fits := range []error{nil, raysys.ErrCancelled, errTooFar, grains.ErrUnsettled, raysys.ErrMoved, raysys.ErrNotDelivered} {
				if errors.Is(err, fits) { // of the last two: its grain went again and again
					return
				}
			}
			t.Error(err)
		})
	}
	all.Wait()
}
