package grainengine_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// crew is a stateless worker kind whose calls take virtual time.
type crew struct {
	table     *raysys.Table
	kind      grains.Kind[hooked]
	work      grains.Func[hooked, time.Duration, int]
	now, most atomic.Int32
	test      *hooks
}

func newCrew(opts ...grains.Option) *crew {
	h := newHooked(opts...)
	c := &crew{table: h.table, kind: h.kind, test: h.test}
	c.work = grains.Method(h.kind, "work", func(h *hooked, _ context.Context, d time.Duration) (int, error) {
		h.n++ // a worker has one turn at a time
		for n := c.now.Add(1); ; {
			m := c.most.Load()
			if m >= n || c.most.CompareAndSwap(m, n) {
				break
			}
		}
		<-time.After(d)
		c.now.Add(-1)
		return h.n, nil
	})
	return c
}

func (c *crew) run(t *testing.T, f func(n *system.Node, ctx context.Context, g grains.Grain[hooked])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n, ctx := nodetest.Start(t, system.Config{Table: c.table})
		f(n, ctx, c.kind.Get("a"))
	})
}

func TestWorkersShareTheCalls(t *testing.T) {
	for _, n := range []int{1, 3, 10} {
		c := newCrew(grains.StatelessWorker(n))
		c.run(t, func(node *system.Node, ctx context.Context, g grains.Grain[hooked]) {
			took(t, time.Duration((20+n-1)/n)*time.Second, func() {
				var refs []raysys.Ref[int]
				for range 20 {
					refs = append(refs, c.work.Call(ctx, g, time.Second))
				}
				for _, r := range refs {
					if _, err := r.Get(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			if int(c.most.Load()) != n || engineOf(node).Activations("hooked") != n {
				t.Errorf("%d calls at a time by %d workers, want %d", c.most.Load(), engineOf(node).Activations("hooked"), n)
			}
		})
	}
}

// TestNoWorkerForNothing: as long as one is free, no further one is made.
func TestNoWorkerForNothing(t *testing.T) {
	c := newCrew(grains.StatelessWorker(5))
	c.run(t, func(node *system.Node, ctx context.Context, g grains.Grain[hooked]) {
		for i := range 10 {
			wants(t, ctx, c.work.Call(ctx, g, 0), i+1)
			synctest.Wait()
		}
	})
	if n := len(c.test.said()); n != 2 {
		t.Error(c.test.said())
	}
}

// TestShortBehindLong: a short call never waits behind a long one while a worker is free.
func TestShortBehindLong(t *testing.T) {
	c := newCrew(grains.StatelessWorker(2))
	c.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[hooked]) {
		took(t, 20*time.Second, func() {
			long := c.work.Call(ctx, g, 20*time.Second)
			took(t, 10*time.Second, func() {
				for range 10 {
					if _, err := c.work.Call(ctx, g, time.Second).Get(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			if _, err := long.Get(ctx); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestWorkersOfEachKey(t *testing.T) {
	c := newCrew(grains.StatelessWorker(1))
	c.run(t, func(_ *system.Node, ctx context.Context, _ grains.Grain[hooked]) {
		took(t, 2*time.Second, func() {
			var refs []raysys.Ref[int]
			for range 2 {
				for _, key := range []string{"a", "b", "c"} {
					refs = append(refs, c.work.Call(ctx, c.kind.Get(key), time.Second))
				}
			}
			for i, r := range refs {
				wants(t, ctx, r, i/3+1)
			}
		})
	})
}

func TestWorkersPassivate(t *testing.T) {
	c := newCrew(grains.StatelessWorker(3), grains.IdleAfter(time.Minute))
	c.run(t, func(node *system.Node, ctx context.Context, g grains.Grain[hooked]) {
		for range 3 {
			var refs []raysys.Ref[int]
			for range 3 {
				refs = append(refs, c.work.Call(ctx, g, time.Second))
			}
			for _, r := range refs {
				wants(t, ctx, r, 1) // new workers each round
			}
			if n := engineOf(node).Activations("hooked"); n != 3 {
				t.Error(n, "workers, want 3")
			}
			pass(80 * time.Second)
			if n := engineOf(node).Activations("hooked"); n != 0 {
				t.Error(n, "workers after a minute without calls")
			}
		}
	})
}

// TestWorkerCallsItself: the only worker that waits for a call to its own key would wait for ever.
func TestWorkerCallsItself(t *testing.T) {
	k := newKnot(grains.StatelessWorker(1))
	k.run(t, func(ctx context.Context) {
		isCycle(t, nodetest.Fails(t, ctx, k.pass.Call(ctx, k.kind.Get("a"), []string{"a"}), raysys.ErrCycle), "k/a.pass")
		isCycle(t, nodetest.Fails(t, ctx, k.by.Call(ctx, k.kind.Get("a"), "a"), raysys.ErrCycle), "k/a.by")
		wants(t, ctx, k.get(ctx, "a"), 1)
	})
	k = newKnot(grains.StatelessWorker(2))
	k.run(t, func(ctx context.Context) {
		wants(t, ctx, k.pass.Call(ctx, k.kind.Get("a"), []string{"a"}), 1)
		wants(t, ctx, k.pass.Call(ctx, k.kind.Get("a"), []string{"b", "a"}), 1)
	})
}

func TestWorkerPanics(t *testing.T) {
	for name, choice := range map[string]grains.PanicChoice{
		"keep": grains.KeepOnPanic, "deactivate": grains.DeactivateOnPanic, "restart": grains.RestartOnPanic,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked(grains.StatelessWorker(2), grains.OnPanic(choice))
			boom := grains.Action0(h.kind, "boom", func(*hooked, context.Context) error { panic("boom") })
			n, ctx := nodetest.Start(t, system.Config{Table: h.table})
			a := h.kind.Get("a")
			for range 50 {
				var bad []grains.Done
				var good []raysys.Ref[int]
				for range 5 {
					bad, good = append(bad, boom.Call(ctx, a)), append(good, h.add.Call(ctx, a, 0))
				}
				for i := range bad {
					nodetest.Fails(t, ctx, bad[i], raysys.ErrPanic)
					wants(t, ctx, good[i], 0)
				}
			}
			nodetest.Eventually(t, "at most two workers", func() bool { return engineOf(n).Activations("hooked") <= 2 })
		})
	}
}

// TestWorkersOfAllCPUs: 0 stands for one worker per CPU.
func TestWorkersOfAllCPUs(t *testing.T) {
	c := newCrew(grains.StatelessWorker(0))
	c.run(t, func(_ *system.Node, ctx context.Context, g grains.Grain[hooked]) {
		var refs []raysys.Ref[int]
		for range 4 * runtime.GOMAXPROCS(0) {
			refs = append(refs, c.work.Call(ctx, g, time.Second))
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if int(c.most.Load()) != runtime.GOMAXPROCS(0) {
		t.Error(c.most.Load(), "at a time")
	}
}

// TestWorkerActivationFails: calls fail with the cause, and later ones try again.
func TestWorkerActivationFails(t *testing.T) {
	h := newHooked(grains.StatelessWorker(2))
	var bad atomic.Bool
	bad.Store(true)
	h.test.activate = func(context.Context, *hooked) error {
		if bad.Load() {
			return errNote
		}
		return nil
	}
	ctx := nodetest.Driver(t, h.table)
	for range 20 {
		nodetest.Fails(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), grains.ErrActivation)
	}
	bad.Store(false)
	nodetest.Eventually(t, "a worker that is well", func() bool {
		_, err := h.add.Call(ctx, h.kind.Get("a"), 1).Get(ctx)
		return err == nil
	})
}
