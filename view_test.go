package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
)

// gallery is a shelf that shows its value.
type gallery struct {
	shelf
	views, closed atomic.Int32
}

func (g *gallery) View(into any, done func(func(), error)) {
	g.views.Add(1)
	go g.show(into, done)
}

func (g *gallery) show(into any, done func(func(), error)) {
	if g.gate != nil {
		<-g.gate
	}
	if err := g.fail.Load(); err != nil {
		done(nil, *err)
		return
	}
	*into.(*wide) = *g.value.(*wide)
	done(func() { g.closed.Add(1) }, nil)
}

func newGallery(b *bench) (raysys.Ref[wide], *gallery) {
	r := raysys.Put(b.ctx, newWide(1))
	v, _ := futureOf(r).Outcome()
	g := &gallery{shelf: shelf{value: v}}
	futureOf(r).Evict(g)
	return r, g
}

// A View of an absent value looks at it where it is, and puts it back, whatever f does.
func TestView(t *testing.T) {
	b := newBench(t)
	r, g := newGallery(b)
	errSeen := errors.New("seen")
	for i := range int32(3) {
		err := raysys.View(b.ctx, r, func(w wide) error {
			if !w.whole() || g.closed.Load() != i {
				t.Error("torn, or put back while f runs")
			}
			return errSeen
		})
		if !errors.Is(err, errSeen) || g.views.Load() != i+1 || g.closed.Load() != i+1 {
			t.Error(err, g.views.Load(), g.closed.Load())
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = raysys.View(b.ctx, r, func(wide) error { panic("in the middle") })
	}()
	if g.closed.Load() != 4 || g.fetches.Load() != 0 || !futureOf(r).Absent() {
		t.Error(g.closed.Load(), g.fetches.Load(), futureOf(r).Absent())
	}
	if v, err := r.Get(b.ctx); !v.whole() || err != nil { // from then on it is here
		t.Error(err)
	}
	if err := raysys.View(b.ctx, r, func(w wide) error { return nil }); err != nil || g.views.Load() != 4 {
		t.Error(err, g.views.Load())
	}
	r.Release()
	if err := raysys.View(b.ctx, r, func(wide) error { return nil }); !errors.Is(err, raysys.ErrReleased) {
		t.Error(err)
	}
	if err := raysys.View(b.ctx, raysys.Ref[wide]{}, func(wide) error { return nil }); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Error(err)
	}
}

// A View that is given up while the value is being opened has it closed when it comes.
func TestViewGivenUp(t *testing.T) {
	b := newBench(t)
	r, g := newGallery(b)
	g.gate = make(chan struct{})
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Millisecond)
	defer cancel()
	if err := raysys.View(ctx, r, func(wide) error { t.Error("called"); return nil }); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
	close(g.gate)
	nodetest.Eventually(t, "it is put back", func() bool { return g.closed.Load() == 1 })
	bad := fmt.Errorf("%w: no map", raysys.ErrObjectLost)
	g.fail.Store(&bad)
	if err := raysys.View(b.ctx, r, func(wide) error { return nil }); !errors.Is(err, raysys.ErrObjectLost) {
		t.Error(err)
	}
}

// Publish, Lookup and Forget make an attic core.Names.
func (a *attic) Publish(_ context.Context, c *core.Future, spec core.PutSpec) error {
	if spec.Replicas > 1 {
		return fmt.Errorf("%w: one shelf", raysys.ErrNoCapacity)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[spec.Name] = c
	return nil
}

func (a *attic) Lookup(_ context.Context, name string) (*core.Future, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.names[name]; c != nil {
		return c, nil
	}
	return nil, raysys.ErrNotFound
}

func (a *attic) Forget(_ context.Context, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names[name] == nil {
		return raysys.ErrNotFound
	}
	delete(a.names, name)
	return nil
}

func TestNamesAndReplicas(t *testing.T) {
	b := newBench(t)
	if v, err := raysys.Put(b.ctx, newWide(1), raysys.Named("w")).Get(b.ctx); !v.whole() || err != nil {
		t.Error(err)
	}
	if v, err := raysys.Lookup[wide](b.ctx, "w").Get(b.ctx); !v.whole() || err != nil {
		t.Error(err)
	}
	for what, c := range map[string]struct {
		got  error
		want error
	}{
		"another type":    {failure(b.ctx, raysys.Lookup[string](b.ctx, "w")), raysys.ErrInvalidRef},
		"no such name":    {failure(b.ctx, raysys.Lookup[wide](b.ctx, "v")), raysys.ErrNotFound},
		"forget":          {raysys.Forget(b.ctx, "w"), nil},
		"forget twice":    {raysys.Forget(b.ctx, "w"), raysys.ErrNotFound},
		"empty name":      {failure(b.ctx, raysys.Put(b.ctx, 1, raysys.Named(""))), raysys.ErrBadOption},
		"no copy":         {failure(b.ctx, raysys.Put(b.ctx, 1, raysys.Replicas(0))), raysys.ErrBadOption},
		"too many copies": {failure(b.ctx, raysys.Put(b.ctx, 1, raysys.Replicas(2))), raysys.ErrNoCapacity},
		"no runtime":      {raysys.Forget(context.Background(), "w"), raysys.ErrNoRuntime},
	} {
		if !errors.Is(c.got, c.want) || c.want == nil && c.got != nil {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	turn, _, _ := core.TurnOf(b.ctx)
	turn.Job().Objects = nil
	if err := failure(b.ctx, raysys.Put(b.ctx, 1, raysys.Named("x"))); !errors.Is(err, raysys.ErrNoStore) {
		t.Error(err)
	}
	if err := failure(b.ctx, raysys.Lookup[int](b.ctx, "x")); !errors.Is(err, raysys.ErrNoStore) {
		t.Error(err)
	}
}

func failure[T any](ctx context.Context, r raysys.Ref[T]) error {
	_, err := r.Get(ctx)
	return err
}
