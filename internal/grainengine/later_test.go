package grainengine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestAnswerLater: a call that its method keeps is answered after its turn, on this node or another, once, and not when
// it has ended before.
func TestAnswerLater(t *testing.T) {
	r := newRovers(t)
	kept := make(chan *grainengine.Later[int], 1)
	keep := grains.Method(r.kind, "keep", func(_ *rover, ctx context.Context, n int) (int, error) {
		l, err := grainengine.LaterOf[int](ctx)
		if err != nil {
			return 0, err
		}
		if n > 0 { // in its own turn
			l.Answer(n * 2)
		} else {
			kept <- l
		}
		return -1, grainengine.ErrLater
	})
	failing := grains.Method0(r.kind, "failing", func(_ *rover, ctx context.Context) (int, error) {
		l, err := grainengine.LaterOf[int](ctx)
		if err == nil {
			l.Answer(5)
			err = errors.New("after its answer")
		}
		return 0, err
	})
	other := grains.Method0(r.kind, "other", func(_ *rover, ctx context.Context) (string, error) {
		_, err := grainengine.LaterOf[int](ctx)
		if err == nil {
			t.Error("the call has another result")
		}
		return "", err
	})
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	for _, n := range []*fakeNode{b, a} {
		ctx, x := n.context(), r.kind.Get("x")
		f := keep.Call(ctx, x, 0)
		l := <-kept
		if l.Copies() != (n == a) {
			t.Errorf("called from %s: Copies is %v", n.name, l.Copies())
		}
		if _, err := r.add.Call(ctx, x, 1).Get(ctx); err != nil { // the grain goes on
			t.Error(err)
		}
		if raysys.PhaseOf(f) != raysys.PhasePending {
			t.Error("it has settled:", raysys.PhaseOf(f))
		}
		l.Answer(7)
		l.Answer(8)
		wants(t, ctx, f, 7)
		wants(t, ctx, keep.Call(ctx, x, 4), 8)
		wants(t, ctx, failing.Call(ctx, x), 5) // the answer came first, and stays

		late := keep.With(raysys.Deadline(20*time.Millisecond)).Call(ctx, x, 0)
		l = <-kept
		nodetest.Fails(t, ctx, late, raysys.ErrDeadline)
		l.Answer(1)
		nodetest.Fails(t, ctx, late, raysys.ErrDeadline)

		f = keep.Call(ctx, x, 0)
		l = <-kept
		f.Cancel()
		nodetest.Fails(t, ctx, f, raysys.ErrCancelled)
		l.Answer(1)
		if _, err := other.Call(ctx, x).Get(ctx); err == nil {
			t.Error("a method took its call for one with another result")
		}
	}
}

// handedOver is a strict mode that only takes down.
type handedOver struct {
	mu     sync.Mutex
	places []string
}

func (h *handedOver) HandOver(place string, at any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = append(h.places, place)
	return nil
}

func (h *handedOver) Lend(_ string, at any) (func(), error) { return func() {}, nil }

// Fail implements raysys.Inspector.
func (h *handedOver) Fail(err error) error { return err }

// TestAnswerLaterIsHandedOver: in strict mode such a result is looked at like every other.
func TestAnswerLaterIsHandedOver(t *testing.T) {
	r := newRovers(t)
	var later *grainengine.Later[[]int]
	ask := grains.Method0(r.kind, "ask", func(_ *rover, ctx context.Context) (none []int, err error) {
		if later, err = grainengine.LaterOf[[]int](ctx); err != nil {
			return nil, err
		}
		return nil, grainengine.ErrLater
	})
	answer := grains.Action0(r.kind, "answer", func(*rover, context.Context) error {
		later.Answer([]int{1, 2, 3})
		return nil
	})
	a := r.net.add("a")
	r.on(a)
	h := &handedOver{}
	a.job.Inspect = h
	ctx, g := a.context(), r.kind.Get("x")
	f := ask.Call(ctx, g)
	if _, err := answer.Call(ctx, g).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Get(ctx); len(got) != 3 || err != nil {
		t.Error(got, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.places, "result of rover.ask") {
		t.Error("nobody looked:", h.places)
	}
}
