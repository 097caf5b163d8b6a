package grainengine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// sleeper is a grain whose method waits for the end of its context, or for a time.
type sleeper struct {
	table *raysys.Table
	kind  grains.Kind[cell]
	hang  grains.Func0[cell, int] // until its context ends
	deaf  grains.Act[cell, time.Duration]
	add   grains.Func0[cell, int]
	ends  chan error // of the contexts of hang, when they end
}

func newSleeper() *sleeper {
	s := &sleeper{table: raysys.NewTable()}
	s.kind = grains.DefineIn[cell](s.table, "sleeper")
	s.hang = grains.Method0(s.kind, "hang", func(_ *cell, ctx context.Context) (int, error) {
		<-ctx.Done()
		s.ends <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	s.deaf = grains.Action(s.kind, "deaf", func(_ *cell, _ context.Context, d time.Duration) error {
		<-time.After(d)
		return nil
	})
	s.add = grains.Method0(s.kind, "add", func(c *cell, _ context.Context) (int, error) { c.n++; return c.n, nil })
	return s
}

func (s *sleeper) run(t *testing.T, f func(n *system.Node, ctx context.Context, g grains.Grain[cell])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.ends = make(chan error, 10)
		n, ctx := nodetest.Start(t, system.Config{Table: s.table})
		f(n, ctx, s.kind.Get("a"))
	})
}

// took checks that f takes d of virtual time.
func took(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	// The wheel rings within a tick of a millisecond.
	if got := time.Since(begin); got < d || got > d+2*time.Millisecond {
		t.Errorf("it took %v, want %v", got, d)
	}
}

func TestDefaultDeadline(t *testing.T) {
	s := newSleeper()
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		took(t, 30*time.Second, func() {
			running, queued := s.hang.Call(ctx, g), s.add.Call(ctx, g)
			for _, r := range []raysys.Ref[int]{running, queued} {
				err := nodetest.Fails(t, ctx, r, raysys.ErrDeadline)
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sleeper/a.") {
					t.Errorf("%q does not say what", err)
				}
				if raysys.PhaseOf(r) != raysys.PhaseCancelled && raysys.PhaseOf(r) != raysys.PhaseFailed {
					t.Error(raysys.PhaseOf(r))
				}
			}
		})
		if err := <-s.ends; !errors.Is(err, raysys.ErrDeadline) {
			t.Error("the method's context ended with", err)
		}
		wants(t, ctx, s.add.Call(ctx, g), 1) // the queued call did not run
	})
}

// TestDeadlineWithoutWaiter: nobody waits for the calls, so nothing rings for them; they end all the same.
func TestDeadlineWithoutWaiter(t *testing.T) {
	s := newSleeper()
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		running, queued := s.hang.Call(ctx, g), s.add.Call(ctx, g)
		pass(31 * time.Second)
		if err := <-s.ends; !errors.Is(err, raysys.ErrDeadline) {
			t.Error("the method's context ended with", err)
		}
		// The method returned its context's error: that is the deadline, not a failure of its own.
		nodetest.Fails(t, ctx, running, raysys.ErrDeadline)
		nodetest.Fails(t, ctx, queued, raysys.ErrDeadline)
		wants(t, ctx, s.add.Call(ctx, g), 1)
	})
}

func TestOwnDeadline(t *testing.T) {
	s := newSleeper()
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		took(t, 5*time.Second, func() {
			nodetest.Fails(t, ctx, s.hang.With(raysys.Deadline(5*time.Second)).Call(ctx, g), raysys.ErrDeadline)
		})
		took(t, 2*time.Minute, func() {
			r := s.deaf.With(raysys.NoDeadline()).Call(ctx, g, 2*time.Minute)
			behind := s.add.With(raysys.NoDeadline()).Call(ctx, g)
			wants(t, ctx, behind, 1)
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		})
		// A method that ignores its context: the caller is free in time, the grain when the method returns.
		took(t, time.Second, func() {
			_, err := s.deaf.With(raysys.Deadline(time.Second)).Call(ctx, g, time.Minute).Get(ctx)
			if !errors.Is(err, raysys.ErrDeadline) {
				t.Error(err)
			}
		})
		took(t, 59*time.Second, func() { wants(t, ctx, s.add.With(raysys.NoDeadline()).Call(ctx, g), 2) })
	})
}

func TestDeadlineOfContext(t *testing.T) {
	s := newSleeper()
	seen := grains.Method0(s.kind, "seen", func(_ *cell, ctx context.Context) (time.Duration, error) {
		at, ok := ctx.Deadline()
		if !ok {
			return -1, nil
		}
		return time.Until(at), nil
	})
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		took(t, 0, func() {
			wants(t, ctx, seen.Call(ctx, g), 30*time.Second)
			wants(t, ctx, seen.Call(short, g), 3*time.Second)
			wants(t, ctx, seen.With(raysys.Deadline(time.Second)).Call(short, g), time.Second)
			wants(t, ctx, seen.With(raysys.NoDeadline()).Call(ctx, g), -1)
			wants(t, ctx, seen.With(raysys.NoDeadline(), raysys.Detached()).Call(short, g), -1)
		})
		took(t, 3*time.Second, func() {
			nodetest.Fails(t, ctx, s.hang.Call(short, g), context.DeadlineExceeded)
		})
	})
}

// TestCancelCaller: the end of the caller's context reaches the running method and the queued calls, and nothing else.
func TestCancelCaller(t *testing.T) {
	s := newSleeper()
	stop := errors.New("enough")
	s.run(t, func(n *system.Node, ctx context.Context, g grains.Grain[cell]) {
		for name, under := range map[string]func() (context.Context, context.CancelCauseFunc){
			"derived": func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(ctx) },
			"driver": func() (context.Context, context.CancelCauseFunc) {
				c, cancel := context.WithCancelCause(context.Background())
				return n.Context(c), cancel
			},
		} {
			mine, cancel := under()
			took(t, 0, func() {
				running, queued, other := s.hang.Call(mine, g), s.add.Call(mine, g), s.add.Call(ctx, g)
				kept := s.add.With(raysys.Detached()).Call(mine, g)
				synctest.Wait()
				cancel(stop)
				for _, r := range []raysys.Ref[int]{running, queued} {
					if err := nodetest.Fails(t, ctx, r, raysys.ErrCancelled); !errors.Is(err, stop) {
						t.Errorf("%s: %v hides the cause", name, err)
					}
				}
				if err := <-s.ends; !errors.Is(err, raysys.ErrCancelled) {
					t.Error(name, "the method's context ended with", err)
				}
				v, err := other.Get(ctx)
				w, err2 := kept.Get(ctx)
				if err != nil || err2 != nil || w != v+1 {
					t.Error(name, v, w, err, err2)
				}
			})
		}
	})
}

func TestCancelRef(t *testing.T) {
	s := newSleeper()
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		took(t, 0, func() {
			running, queued := s.hang.Call(ctx, g), s.add.Call(ctx, g)
			synctest.Wait()
			if !queued.Cancel() || !running.Cancel() || running.Cancel() {
				t.Error("Cancel reports the wrong thing")
			}
			nodetest.Fails(t, ctx, running, raysys.ErrCancelled)
			nodetest.Fails(t, ctx, queued, raysys.ErrCancelled)
			<-s.ends
			wants(t, ctx, s.add.Call(ctx, g), 1)
		})
	})
}

// TestCancelNested: what a method submitted ends with it, what it detached does not.
func TestCancelNested(t *testing.T) {
	s := newSleeper()
	var left raysys.Ref[int]
	outer := grains.Method0(s.kind, "outer", func(_ *cell, ctx context.Context) (int, error) {
		left = s.add.With(raysys.Detached()).Call(ctx, s.kind.Get("detached"))
		return s.hang.Call(ctx, s.kind.Get("inner")).Get(ctx)
	})
	s.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[cell]) {
		took(t, 0, func() {
			r := outer.Call(ctx, g)
			synctest.Wait()
			r.Cancel()
			nodetest.Fails(t, ctx, r, raysys.ErrCancelled)
			if err := <-s.ends; !errors.Is(err, raysys.ErrCancelled) {
				t.Error("the inner method's context ended with", err)
			}
			wants(t, ctx, left, 1)
		})
	})
}
