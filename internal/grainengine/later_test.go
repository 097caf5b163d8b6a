package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
)

// keepers is rovers with a method that keeps its calls.
type keepers struct {
	*rovers
	keep grains.Func[rover, int, int]
	kept chan *grains.Later[int]
}

func newKeepers(t testing.TB, opts ...grains.Option) *keepers {
	r := &keepers{rovers: newRovers(t, opts...), kept: make(chan *grains.Later[int], 100)}
	r.keep = grains.LaterMethod(r.kind, "keep", func(_ *rover, ctx context.Context, n int, l *grains.Later[int]) error {
		switch {
		case n > 0: // in its own turn
			return l.Settle(n * 2)
		case n < 0:
			return errTooFar
		}
		r.kept <- l
		return nil
	})
	return r
}

// next is the call that was kept last.
func (r *keepers) next(t testing.TB) *grains.Later[int] {
	t.Helper()
	return nodetest.Arrive(t, r.kept, "a call is kept")
}

// refuses fails the test unless settling l again says that of it.
func refuses(t testing.TB, l *grains.Later[int], want error) {
	t.Helper()
	for range 2 {
		if err := l.Settle(1); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("Settle: %v, want %v", err, want)
		}
		if err := l.Fail(errTooFar); !errors.Is(err, want) {
			t.Errorf("Fail: %v, want %v", err, want)
		}
	}
}

// contextEnds fails the test unless the context is done, with that cause where one is given.
func contextEnds(t testing.TB, ctx context.Context, cause error) {
	t.Helper()
	nodetest.Arrive(t, ctx.Done(), "the context of the call ends")
	if got := context.Cause(ctx); cause != nil && !errors.Is(got, cause) || ctx.Err() == nil {
		t.Errorf("the context ended with %v, %v, want %v", ctx.Err(), got, cause)
	}
}

// TestLater: a call that its method keeps is answered after its turn, on this node or another, once, and not when it has ended before.
func TestLater(t *testing.T) {
	r := newKeepers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	for _, n := range []*fakeNode{b, a} {
		ctx, x := n.context(), r.kind.Get("x")
		f := r.keep.Call(ctx, x, 0)
		l := r.next(t)
		if _, err := r.add.Call(ctx, x, 1).Get(ctx); err != nil { // the grain goes on
			t.Error(err)
		}
		if raysys.PhaseOf(f) != raysys.PhasePending || l.Context().Err() != nil {
			t.Error("it has settled:", raysys.PhaseOf(f), l.Context().Err())
		}
		if err := l.Settle(7); err != nil {
			t.Error(err)
		}
		refuses(t, l, grains.ErrSettled)
		contextEnds(t, l.Context(), nil)
		wants(t, ctx, f, 7)
		wants(t, ctx, r.keep.Call(ctx, x, 4), 8)

		f = r.keep.Call(ctx, x, 0)
		l = r.next(t)
		if err := l.Fail(fmt.Errorf("no more: %w", errTooFar)); err != nil {
			t.Error(err)
		}
		refuses(t, l, grains.ErrSettled)
		var te *raysys.TaskError
		if err := nodetest.Fails(t, ctx, f, errTooFar); !errors.As(err, &te) || te.Node != "b" || te.Function != "rover/x.keep" {
			t.Errorf("%v is no failure of the method", err)
		}
		nodetest.Fails(t, ctx, r.keep.Call(ctx, x, -1), errTooFar)

		late := r.keep.With(raysys.Deadline(20*time.Millisecond)).Call(ctx, x, 0)
		l = r.next(t)
		inside := l.Context()
		if _, ok := inside.Deadline(); !ok {
			t.Error("its context has no deadline")
		}
		nodetest.Fails(t, ctx, late, raysys.ErrDeadline)
		contextEnds(t, inside, nil)
		nodetest.Eventually(t, "settling says why", func() bool { return l.Settle(1) != nil })
		nodetest.Fails(t, ctx, late, raysys.ErrDeadline)

		f = r.keep.Call(ctx, x, 0)
		l = r.next(t)
		inside = l.Context()
		f.Cancel()
		nodetest.Fails(t, ctx, f, raysys.ErrCancelled)
		contextEnds(t, inside, raysys.ErrCancelled)
		refuses(t, l, raysys.ErrCancelled)

		caller, stop := context.WithCancel(context.Background())
		f = r.keep.Call(n.under(caller), x, 0)
		l = r.next(t)
		keeps := func() bool { return strings.Contains(b.engine.ExplainWaiting("rover/x")[0].For, "Settle") }
		nodetest.Eventually(t, "the call is kept", keeps)
		stop()
		nodetest.Eventually(t, "it ends with the context of its caller", func() bool { return !keeps() })
		nodetest.Fails(t, ctx, f, raysys.ErrCancelled)
		contextEnds(t, l.Context(), raysys.ErrCancelled)
		refuses(t, l, raysys.ErrCancelled)
	}
	if err := new(grains.Later[int]).Settle(1); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Error("the zero Later:", err)
	}
}

// untold is a context of a caller that has ended, and has told nobody yet.
type untold struct {
	context.Context
	over atomic.Bool
	done chan struct{}
}

func (c *untold) Done() <-chan struct{} { return c.done }

func (c *untold) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

// TestLaterLearnsOfItsCallersEnd: where Settle is the first to see that the caller's context has ended, the call ends, and Settle returns why.
func TestLaterLearnsOfItsCallersEnd(t *testing.T) {
	r := newKeepers(t)
	b := r.net.add("b")
	r.on(b)
	caller := &untold{Context: context.Background(), done: make(chan struct{})}
	f := r.keep.Call(b.under(caller), r.kind.Get("x"), 0)
	l := r.next(t)
	nodetest.Eventually(t, "the call is kept", func() bool { return strings.Contains(b.engine.ExplainWaiting("rover/x")[0].For, "Settle") })
	inside := l.Context()
	caller.over.Store(true)
	settled := make(chan error, 1)
	go func() { settled <- l.Settle(7) }()
	err := nodetest.Arrive(t, settled, "Settle returns")
	close(caller.done)
	if !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}
	nodetest.Fails(t, b.context(), f, raysys.ErrCancelled)
	contextEnds(t, inside, raysys.ErrCancelled)
}

// TestLaterDeadlineWithoutWaiter: a kept call that nobody waits for, a Tell, ends by its deadline too.
func TestLaterDeadlineWithoutWaiter(t *testing.T) {
	r := newKeepers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	for _, n := range []*fakeNode{b, a} {
		if err := r.keep.With(raysys.Deadline(20*time.Millisecond)).Tell(n.context(), r.kind.Get("x"), 0); err != nil {
			t.Fatal(err)
		}
		l := r.next(t)
		contextEnds(t, l.Context(), nil)
		refuses(t, l, raysys.ErrDeadline)
	}
}

// TestLaterInItsTurn: what the method settles in its turn stays, whatever becomes of the method after that. What fails first stays,
// too.
func TestLaterInItsTurn(t *testing.T) {
	r := newKeepers(t)
	var later *grains.Later[int]
	odd := grains.LaterMethod(r.kind, "odd", func(_ *rover, _ context.Context, how string, l *grains.Later[int]) error {
		later = l
		if s, ok := strings.CutPrefix(how, "settled, "); ok {
			how = s
			if err := l.Settle(5); err != nil {
				return err
			}
		}
		switch how {
		case "error":
			return errTooFar
		case "panic":
			panic("odd")
		case "goexit":
			runtime.Goexit()
		}
		return nil
	})
	a := r.net.add("a")
	r.on(a)
	ctx, x := a.context(), r.kind.Get("x")
	for _, how := range []string{"error", "panic", "goexit", "nil"} {
		wants(t, ctx, odd.Call(ctx, x, "settled, "+how), 5)
		if _, err := r.add.Call(ctx, x, 1).Get(ctx); err != nil {
			t.Error(err)
		}
		refuses(t, later, grains.ErrSettled)
		if how == "nil" {
			continue
		}
		f := odd.Call(ctx, x, how)
		_, err := f.Get(ctx)
		var te *raysys.TaskError
		if !errors.As(err, &te) {
			t.Errorf("%s: %v", how, err)
		}
		if got := later.Settle(1); !errors.As(got, &te) {
			t.Errorf("after %s Settle says %v", how, got)
		}
	}
	for _, n := range a.engine.ExplainWaiting("rover/x") {
		if strings.Contains(n.For, "keeps") {
			t.Error(n.For)
		}
	}
}

// TestLaterCountsInTheMailbox: kept calls and those in the mailbox are together as many as that has room for.
func TestLaterCountsInTheMailbox(t *testing.T) {
	r := newKeepers(t, grains.Mailbox(4))
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	for _, n := range []*fakeNode{b, a} {
		ctx, x := n.context(), r.kind.Get("x")
		for range 3 { // the bound is no other after many calls
			var l []*grains.Later[int]
			for range 4 {
				_ = r.keep.Call(ctx, x, 0)
				l = append(l, r.next(t))
			}
			nodetest.Eventually(t, "all are kept", func() bool {
				return strings.Contains(b.engine.ExplainWaiting("rover/x")[0].For, "4 of rover.keep")
			})
			for _, f := range []raysys.Ref[int]{r.add.Call(ctx, x, 1), r.keep.Call(ctx, x, 0)} {
				if err := nodetest.Fails(t, ctx, f, raysys.ErrOverloaded); err != nil && !strings.Contains(err.Error(), "keeps 4 of them") {
					t.Error(err)
				}
			}
			if err := l[1].Settle(1); err != nil {
				t.Error(err)
			}
			if _, err := r.add.Call(ctx, x, 1).Get(ctx); err != nil {
				t.Error("there is room again:", err)
			}
			for _, l := range l {
				_ = l.Settle(1)
			}
		}
	}
}

// TestLaterIsExplained: explain says how many calls of which methods the grain keeps, and why where the grain says so.
func TestLaterIsExplained(t *testing.T) {
	r := newKeepers(t)
	a := r.net.add("a")
	r.on(a)
	ctx, x := a.context(), r.kind.Get("x")
	says := func() string {
		list := a.engine.ExplainWaiting("rover/x")
		if len(list) != 1 {
			t.Fatal(list)
		}
		return list[0].For
	}
	f := []raysys.Ref[int]{r.keep.Call(ctx, x, 0), r.keep.Call(ctx, x, 0)}
	l := []*grains.Later[int]{r.next(t), r.next(t)}
	nodetest.Eventually(t, "both are kept", func() bool { return strings.Contains(says(), "wait for Settle: 2 of rover.keep") })
	for _, l := range l {
		l.Because(func() string { return "there are 3 items of 10" })
	}
	if !strings.HasSuffix(says(), ": 2 of rover.keep (there are 3 items of 10)") {
		t.Error(says())
	}
	for i := range l {
		_ = l[i].Settle(1)
		wants(t, ctx, f[i], 1)
	}
	if strings.Contains(says(), "Settle") {
		t.Error(says())
	}
}

// TestLaterHoldsNoArgument: the future of a call that was kept does not keep its argument, also where that may be made again.
func TestLaterHoldsNoArgument(t *testing.T) {
	b := newBlobs()
	kept := make(chan *grains.Later[int], 1)
	keep := grains.LaterMethod(b.kind, "keep", func(_ *cell, _ context.Context, _ blob, l *grains.Later[int]) error { kept <- l; return nil })
	ctx := nodetest.Driver(t, b.table)
	for _, m := range []grains.Func[cell, blob, int]{keep, keep.Idempotent()} {
		x := new([1 << 16]byte)
		p := weak.Make(x)
		r := m.Call(ctx, b.kind.Get("a"), blob{x})
		x = nil
		l := <-kept
		_ = l.Settle(1)
		wants(t, ctx, r, 1)
		b.freed(t, "the argument is freed", p)
		runtime.KeepAlive(r)
	}
}

// TestLaterIsInNoCycle: turns that wait for a kept call are in no cycle, though its grain waits for them, or what works out its answer.
func TestLaterIsInNoCycle(t *testing.T) {
	r := newKeepers(t)
	other := r.kind.Get("other")
	x := r.kind.Get("x")
	work := make(chan error, 1)
	keep := grains.LaterMethod(r.kind, "work", func(_ *rover, _ context.Context, _ int, l *grains.Later[int]) error {
		go func() {
			_, err := r.add.Call(l.Context(), other, 1).Get(l.Context())
			work <- err
		}()
		r.kept <- l
		return nil
	})
	ask := grains.Method0(r.kind, "ask", func(_ *rover, ctx context.Context) (int, error) { return keep.Call(ctx, x, 0).Get(ctx) })
	wait := grains.Method0(r.kind, "wait", func(_ *rover, ctx context.Context) (int, error) { return r.add.Call(ctx, other, 1).Get(ctx) })
	a := r.net.add("a")
	r.on(a)
	ctx := a.context()
	f := ask.Call(ctx, other)
	l := r.next(t)
	g := wait.Call(ctx, x) // x waits for other, which waits for what x keeps
	nodetest.Eventually(t, "x waits", func() bool { return len(a.engine.Busy(9)) == 2 })
	if err := l.Settle(2); err != nil {
		t.Error(err)
	}
	wants(t, ctx, f, 2)
	if _, err := g.Get(ctx); err != nil {
		t.Error(err)
	}
	if err := nodetest.Arrive(t, work, "what works out the answer ends"); errors.Is(err, raysys.ErrCycle) {
		t.Error(err)
	}
}

// TestLaterOutsideTurns: neither the method's context after its turn nor that of the Later is one of a turn of the grain.
func TestLaterOutsideTurns(t *testing.T) {
	p := newPurses(t)
	type left struct {
		g   *purse
		ctx context.Context
		l   *grains.Later[int]
	}
	kept := make(chan left, 1)
	keep := grains.LaterMethod(p.kind, "keep", func(g *purse, ctx context.Context, _ int, l *grains.Later[int]) error {
		kept <- left{g, ctx, l}
		return nil
	})
	n := p.net.add("a")
	p.on(n)
	ctx, x := n.context(), p.kind.Get("x")
	f := keep.Call(ctx, x, 0)
	k := nodetest.Arrive(t, kept, "it is kept")
	if _, err := p.get.Call(ctx, x).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if k.ctx.Err() == nil {
		t.Error("the turn is over, and its context is not")
	}
	for _, ctx := range []context.Context{k.ctx, k.l.Context()} {
		if err := k.g.balance.Write(ctx); err == nil {
			t.Error("a State is written outside the turns")
		}
	}
	if k.l.Context().Err() != nil {
		t.Error("the context of a kept call has ended:", k.l.Context().Err())
	}
	v, err := p.put.Call(k.l.Context(), x, 5).Get(k.l.Context())
	if v != 5 || err != nil {
		t.Error(v, err)
	}
	_ = k.l.Settle(v)
	wants(t, ctx, f, 5)
}

// TestLaterIsFenced: a grain with a State answers only while it is the one, also later.
func TestLaterIsFenced(t *testing.T) {
	p := newPurses(t)
	kept := make(chan *grains.Later[int], 1)
	keep := grains.LaterMethod(p.kind, "keep", func(_ *purse, _ context.Context, _ int, l *grains.Later[int]) error { kept <- l; return nil })
	a := p.net.add("a")
	p.on(a)
	ctx, x := a.context(), p.kind.Get("x")
	f := keep.Call(ctx, x, 0)
	l := nodetest.Arrive(t, kept, "it is kept")
	a.suspend(true)
	if err := l.Settle(1); !errors.Is(err, raysys.ErrSuspended) {
		t.Error("the lease is out, and Settle says", err)
	}
	nodetest.Fails(t, ctx, f, raysys.ErrSuspended)
	refuses(t, l, raysys.ErrSuspended)
	a.suspend(false)
	f = keep.Call(ctx, x, 0)
	l = nodetest.Arrive(t, kept, "it is kept")
	if err := l.Settle(1); err != nil {
		t.Error(err)
	}
	wants(t, ctx, f, 1)
}

// handedOver is a strict mode that only takes down.
type handedOver struct {
	mu     sync.Mutex
	places []string
	fails  int
}

func (h *handedOver) HandOver(place string, at any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = append(h.places, place)
	return nil
}

func (h *handedOver) Lend(_ string, at any) (func(), error) { return func() {}, nil }

// Fail implements raysys.Inspector.
func (h *handedOver) Fail(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails++
	return err
}

// TestLaterIsHandedOver: in strict mode such a result, or error, is looked at like every other, when the call is settled.
func TestLaterIsHandedOver(t *testing.T) {
	r := newKeepers(t)
	a := r.net.add("a")
	r.on(a)
	h := &handedOver{}
	a.job.Inspect = h
	ctx, g := a.context(), r.kind.Get("x")
	looked := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.places, "result of rover.keep")
	}
	f := r.keep.Call(ctx, g, 0)
	l := r.next(t)
	if _, err := r.add.Call(ctx, g, 1).Get(ctx); err != nil || looked() {
		t.Fatal("before it was settled:", err)
	}
	_ = l.Settle(3)
	wants(t, ctx, f, 3)
	if !looked() {
		t.Error("nobody looked")
	}
	f = r.keep.Call(ctx, g, 0)
	_ = r.next(t).Fail(errTooFar)
	nodetest.Fails(t, ctx, f, errTooFar)
	if h.fails != 1 {
		t.Error(h.fails, "errors were looked at")
	}
}
