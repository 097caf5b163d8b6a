package grainengine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// TestSeveralCallsToOneself: all of what a turn waits for comes back to it, whatever the form of the wait.
func TestSeveralCallsToOneself(t *testing.T) {
	refs := func(k *knot, ctx context.Context) []raysys.Ref[int] {
		return []raysys.Ref[int]{k.get(ctx, "a"), k.get(ctx, "a"), k.get(ctx, "a")}
	}
	wait := func(n int) func(*knot, context.Context) (int, error) {
		return func(k *knot, ctx context.Context) (int, error) {
			ready, _, err := raysys.Wait(ctx, refs(k, ctx), n)
			if err != nil {
				return 0, err
			}
			for _, r := range ready {
				if _, err = r.Get(ctx); err == nil {
					break
				}
			}
			return len(ready), err
		}
	}
	for name, f := range map[string]func(k *knot, ctx context.Context) (int, error){
		"one of three": wait(1), "two of three": wait(2), "all three": wait(3),
		"as completed": func(k *knot, ctx context.Context) (n int, err error) {
			for _, r := range raysys.AsCompleted(ctx, refs(k, ctx)) {
				_, err = r.Get(ctx)
				n++
			}
			if n != 3 {
				t.Error(n, "came")
			}
			return n, err
		},
		"get all": func(k *knot, ctx context.Context) (n int, err error) {
			for _, o := range raysys.GetAll(ctx, refs(k, ctx)) {
				err = o.Err
			}
			return n, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKnot()
			turn := k.turn(func(ctx context.Context) (int, error) { return f(k, ctx) })
			k.run(t, func(ctx context.Context) {
				isCycle(t, nodetest.Fails(t, ctx, turn.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
			})
		})
	}
}

// TestLateArgument: a call by reference that joins the queue of a turn which waits for it closes a cycle then, not
// when the wait began.
func TestLateArgument(t *testing.T) {
	k := newKnot()
	id := grains.Method(k.kind, "id", func(_ *cell, _ context.Context, x int) (int, error) { return x, nil })
	slow := tasks.DefineIn(k.table, "slow", func(_ context.Context, d time.Duration) (int, error) {
		<-time.After(d)
		return 5, nil
	})
	turn := k.turn(func(ctx context.Context) (int, error) {
		self, _ := k.kind.Self(ctx)
		return id.On(ctx, self, slow.Go(ctx, time.Second)).Get(ctx)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := nodetest.Driver(t, k.table)
		begin := time.Now()
		isCycle(t, nodetest.Fails(t, ctx, turn.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
		if d := time.Since(begin); d != time.Second {
			t.Errorf("it took %v of virtual time, want 1s", d)
		}
	})
}

// TestReentrantArgument: a reentrant call by reference that comes back is let in, whether its argument is there or
// arrives while its caller begins to wait.
func TestReentrantArgument(t *testing.T) {
	k := newKnot(grains.Reentrant())
	id := grains.Method(k.kind, "id", func(_ *cell, _ context.Context, x int) (int, error) { return x, nil })
	turn := k.turn(func(ctx context.Context) (int, error) {
		self, _ := k.kind.Self(ctx)
		for range 100 {
			there := k.get(ctx, "b")
			if _, err := there.Get(ctx); err != nil {
				return 0, err
			}
			for _, arg := range []raysys.Ref[int]{there, k.get(ctx, "b")} {
				if _, err := id.On(ctx, self, arg).Get(ctx); err != nil {
					return 0, fmt.Errorf("a reentrant call by reference: %w", err)
				}
			}
		}
		return 1, nil
	})
	k.run(t, func(ctx context.Context) { wants(t, ctx, turn.Call(ctx, k.kind.Get("a")), 1) })
}

// TestDeadlockOfEither: each of two grains waits for the first of two calls, one to itself and one to the other.
func TestDeadlockOfEither(t *testing.T) {
	k := newKnot()
	var both sync.WaitGroup
	either := grains.Method(k.kind, "either", func(_ *cell, ctx context.Context, key string) (int, error) {
		self, _ := grains.Self(ctx)
		both.Done()
		both.Wait() // the other turn has begun
		refs := []raysys.Ref[int]{k.get(ctx, self.Key), k.get(ctx, key)}
		ready, _, err := raysys.Wait(ctx, refs, 1)
		if err != nil {
			return 0, err
		}
		return ready[0].Get(ctx)
	})
	k.run(t, func(ctx context.Context) {
		both.Add(2)
		refused := 0
		for _, o := range raysys.GetAll(ctx, []raysys.Ref[int]{
			either.Call(ctx, k.kind.Get("a"), "b"), either.Call(ctx, k.kind.Get("b"), "a"),
		}) {
			if o.Err != nil {
				refused++
				isCycle(t, o.Err)
			}
		}
		if refused == 0 {
			t.Error("nobody was refused")
		}
	})
}

// TestManyWaysToOne: what a turn waits for may depend on one thing over very many ways.
func TestManyWaysToOne(t *testing.T) {
	k := newKnot()
	sum := tasks.Define2In(k.table, "sum", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	wide := func(last func(context.Context) raysys.Ref[int]) grains.Func0[cell, int] {
		return k.turn(func(ctx context.Context) (int, error) {
			r := last(ctx)
			for range 40 {
				r = sum.On(ctx, r, r)
			}
			return r.Get(ctx)
		})
	}
	slow := tasks.Define0In(k.table, "slow", func(ctx context.Context) (int, error) {
		synctest.Wait()
		return 1, nil
	})
	fine := wide(slow.Go)
	bad := wide(func(ctx context.Context) raysys.Ref[int] { return k.call.Go(ctx, "a") })
	k.run(t, func(ctx context.Context) {
		wants(t, ctx, fine.Call(ctx, k.kind.Get("a")), 1<<40)
		isCycle(t, nodetest.Fails(t, ctx, bad.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "call")
	})
}

// TestEitherOfTwoBehindOne: both of the calls that a turn waits for one of go through the same blocked grain.
func TestEitherOfTwoBehindOne(t *testing.T) {
	k := newKnot()
	back := grains.Method(k.kind, "back", func(_ *cell, ctx context.Context, key string) (int, error) {
		return k.get(ctx, key).Get(ctx)
	})
	turn := k.turn(func(ctx context.Context) (int, error) {
		b := k.kind.Get("b")
		refs := []raysys.Ref[int]{back.Call(ctx, b, "a"), back.Call(ctx, b, "a")}
		ready, _, err := raysys.Wait(ctx, refs, 1)
		if err != nil {
			return 0, err
		}
		return ready[0].Get(ctx)
	})
	k.run(t, func(ctx context.Context) {
		isCycle(t, nodetest.Fails(t, ctx, turn.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "k/b.back")
	})
}

// TestTaskInPlaceCallsBack: a turn that runs a task in place lets the task's call in, also when it has waited before,
// and does not go on while that call runs.
func TestTaskInPlaceCallsBack(t *testing.T) {
	k := newKnot(grains.Reentrant())
	var inside, overlap atomic.Bool
	long := k.turn(func(context.Context) (int, error) {
		inside.Store(true)
		<-time.After(10 * time.Second)
		inside.Store(false)
		return 1, nil
	})
	hasty := tasks.Define0In(k.table, "hasty", func(ctx context.Context) (int, error) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return long.Call(ctx, k.kind.Get("a")).Get(short)
	})
	turn := k.turn(func(ctx context.Context) (int, error) {
		if _, err := k.get(ctx, "a").Get(ctx); err != nil {
			return 0, err
		}
		if _, err := k.call.Go(ctx, "a").Get(ctx); err != nil {
			return 0, err
		}
		_, err := hasty.Go(ctx).Get(ctx)
		overlap.Store(inside.Load())
		return 0, err
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := nodetest.Driver(t, k.table)
		begin := time.Now()
		nodetest.Fails(t, ctx, turn.Call(ctx, k.kind.Get("a")), context.DeadlineExceeded)
		if overlap.Load() {
			t.Error("two turns at a time")
		}
		if d := time.Since(begin); d > 11*time.Second {
			t.Errorf("it took %v: the task's call hung", d)
		}
	})
}
