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
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// isCycle fails the test unless err is a refusal whose chain begins and ends with turn.
func isCycle(t *testing.T, err error, turns ...string) {
	t.Helper()
	var ce *raysys.CycleError
	if !errors.Is(err, raysys.ErrCycle) || !errors.As(err, &ce) {
		t.Errorf("got %v, want a cycle through %v", err, turns)
		return
	}
	if n := len(ce.Chain); n < 2 || ce.Chain[0] != ce.Chain[n-1] {
		t.Errorf("the chain %v is no circle", ce.Chain)
	}
	for _, turn := range turns {
		if !strings.Contains(strings.Join(ce.Chain, " "), turn) {
			t.Errorf("the chain %v lacks %s", ce.Chain, turn)
		}
	}
}

// knot is a set of grains and tasks that call each other as a test says.
type knot struct {
	table *raysys.Table
	kind  grains.Kind[cell]
	value grains.Func0[cell, int]          // answers 1
	pass  grains.Func[cell, []string, int] // calls itself on the first key with the rest, or answers 1
	by    grains.Func[cell, string, int]   // has a task call value on the key
	call  tasks.Task[string, int]          // calls value on the key
	route tasks.Task[[]string, int]        // calls pass
	get   func(ctx context.Context, k string) raysys.Ref[int]
}

func newKnot(opts ...grains.Option) *knot {
	tb := raysys.NewTable()
	k := &knot{table: tb, kind: grains.DefineIn[cell](tb, "k", opts...)}
	k.value = grains.Method0(k.kind, "value", func(*cell, context.Context) (int, error) { return 1, nil })
	k.get = func(ctx context.Context, key string) raysys.Ref[int] { return k.value.Call(ctx, k.kind.Get(key)) }
	k.call = tasks.DefineIn(tb, "call", func(ctx context.Context, key string) (int, error) { return k.get(ctx, key).Get(ctx) })
	k.pass = grains.Method(k.kind, "pass", func(_ *cell, ctx context.Context, keys []string) (int, error) {
		if len(keys) == 0 {
			return 1, nil
		}
		return k.pass.Call(ctx, k.kind.Get(keys[0]), keys[1:]).Get(ctx)
	})
	k.route = tasks.DefineIn(tb, "route", func(ctx context.Context, keys []string) (int, error) {
		return k.pass.Call(ctx, k.kind.Get(keys[0]), keys[1:]).Get(ctx)
	})
	k.by = grains.Method(k.kind, "by", func(_ *cell, ctx context.Context, key string) (int, error) {
		return k.call.Go(ctx, key).Get(ctx)
	})
	return k
}

// turn is a method made of f.
func (k *knot) turn(f func(ctx context.Context) (int, error)) grains.Func0[cell, int] {
	return grains.Method0(k.kind, fmt.Sprint("turn", serial.Add(1)), func(_ *cell, ctx context.Context) (int, error) { return f(ctx) })
}

// run runs f with a driver in virtual time: what is left to a deadline shows in the clock.
func (k *knot) run(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, ctx := nodetest.Start(t, system.Config{Table: k.table})
		begin := time.Now()
		f(ctx)
		if d := time.Since(begin); d != 0 {
			t.Errorf("%v of virtual time went by: something was left to its deadline", d)
		}
	})
}

func TestCycles(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		chain []string
	}{
		"to itself":      {"a a", []string{"k/a.pass -> k/a.pass"}},
		"there and back": {"a b a", []string{"k/a.pass", "k/b.pass"}},
		"three":          {"a b c a", []string{"k/a.pass", "k/b.pass", "k/c.pass"}},
		"ten":            {"a b c d e f g h i j a", []string{"k/a.pass", "k/j.pass"}},
		"tail":           {"x y a b a", []string{"k/a.pass", "k/b.pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKnot()
			k.run(t, func(ctx context.Context) {
				keys := strings.Fields(c.keys)
				_, err := k.pass.Call(ctx, k.kind.Get(keys[0]), keys[1:]).Get(ctx)
				var ce *raysys.CycleError
				if !errors.As(err, &ce) {
					t.Fatal(err)
				}
				got := strings.Join(ce.Chain, " -> ")
				for _, want := range c.chain {
					if !strings.Contains(got, want) {
						t.Errorf("the chain %s lacks %s", got, want)
					}
				}
				if strings.Contains(got, "k/x") {
					t.Errorf("the chain %s has turns outside the cycle", got)
				}
				isCycle(t, err)
				// Everyone is well afterwards.
				for _, key := range keys {
					wants(t, ctx, k.get(ctx, key), 1)
				}
			})
		})
	}
}

func TestChainsThatAreNoCycle(t *testing.T) {
	k := newKnot()
	k.run(t, func(ctx context.Context) {
		for _, keys := range []string{"a", "a b", "a b c d e f"} {
			f := strings.Fields(keys)
			for range 3 {
				wants(t, ctx, k.pass.Call(ctx, k.kind.Get(f[0]), f[1:]), 1)
			}
			wants(t, ctx, k.route.Go(ctx, f), 1)
		}
		wants(t, ctx, k.by.Call(ctx, k.kind.Get("a"), "b"), 1)
	})
}

func TestCycleThroughTask(t *testing.T) {
	k := newKnot()
	far := tasks.DefineIn(k.table, "far", func(ctx context.Context, key string) (int, error) { return k.call.Go(ctx, key).Get(ctx) })
	twice := k.turn(func(ctx context.Context) (int, error) { return far.Go(ctx, "a").Get(ctx) })
	k.run(t, func(ctx context.Context) {
		isCycle(t, nodetest.Fails(t, ctx, k.by.Call(ctx, k.kind.Get("a"), "a"), raysys.ErrCycle), "k/a.by", "call")
		isCycle(t, nodetest.Fails(t, ctx, twice.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "far", "call")
		wants(t, ctx, k.get(ctx, "a"), 1)
	})
}

// TestTaskStartedWithoutWaiting: the task's call just waits for its turn; only the Get makes it a cycle.
func TestTaskStartedWithoutWaiting(t *testing.T) {
	k := newKnot()
	var left raysys.Ref[int]
	free := k.turn(func(ctx context.Context) (int, error) {
		left = k.call.Go(ctx, "a")
		synctest.Wait() // the task runs as far as it can
		return 2, nil
	})
	tied := k.turn(func(ctx context.Context) (int, error) {
		r := k.call.Go(ctx, "a")
		synctest.Wait()
		if raysys.PhaseOf(r) != raysys.PhasePending {
			t.Error("the call was refused before anyone waited for it")
		}
		return r.Get(ctx)
	})
	k.run(t, func(ctx context.Context) {
		wants(t, ctx, free.Call(ctx, k.kind.Get("a")), 2)
		wants(t, ctx, left, 1)
		isCycle(t, nodetest.Fails(t, ctx, tied.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "call")
	})
}

// TestWaitForSome: waiting for n of several is a cycle only when so many cannot come.
func TestWaitForSome(t *testing.T) {
	k := newKnot()
	wait := func(n int, keys ...string) grains.Func0[cell, int] {
		return k.turn(func(ctx context.Context) (int, error) {
			var refs []raysys.Ref[int]
			for _, key := range keys {
				refs = append(refs, k.get(ctx, key))
			}
			_, _, err := raysys.Wait(ctx, refs, n)
			if err != nil {
				return 0, err
			}
			sum := 0
			for _, r := range refs {
				if raysys.PhaseOf(r) == raysys.PhaseFailed {
					_, err := r.Get(ctx)
					return 0, err
				}
				if raysys.PhaseOf(r) == raysys.PhaseReady {
					sum++
				}
			}
			return sum, nil
		})
	}
	enough := wait(2, "a", "b", "c")
	short := wait(3, "a", "b", "c")
	k.run(t, func(ctx context.Context) {
		if n, err := enough.Call(ctx, k.kind.Get("a")).Get(ctx); n < 2 || err != nil {
			t.Error(n, err)
		}
		isCycle(t, nodetest.Fails(t, ctx, short.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
	})
}

// TestWaitForOneOfTwo: a turn waits for one of two, of which one can never come and the other needs a turn that waits
// itself, but not for ever. Nothing is refused: only who waits for more than can come is stuck.
func TestWaitForOneOfTwo(t *testing.T) {
	k := newKnot()
	var entered, leave chan bool
	slow := k.turn(func(context.Context) (int, error) {
		entered <- true
		<-leave
		return 7, nil
	})
	behind := k.turn(func(ctx context.Context) (int, error) { return slow.Call(ctx, k.kind.Get("c")).Get(ctx) })
	either := k.turn(func(ctx context.Context) (int, error) {
		other := behind.Call(ctx, k.kind.Get("b"))
		<-entered
		synctest.Wait() // b waits for c
		refs := []raysys.Ref[int]{k.get(ctx, "a"), other}
		go func() {
			synctest.Wait()
			leave <- true
		}()
		ready, _, err := raysys.Wait(ctx, refs, 1)
		if err != nil {
			return 0, err
		}
		return ready[0].Get(ctx)
	})
	k.run(t, func(ctx context.Context) {
		entered, leave = make(chan bool), make(chan bool)
		if v, err := either.Call(ctx, k.kind.Get("a")).Get(ctx); v != 7 || err != nil {
			t.Errorf("a wait for one of two, where one is the waiting grain's own call and the other will end, gave %d, %v; want 7 and no refusal", v, err)
		}
	})
}

func TestWaitForMany(t *testing.T) {
	k := newKnot()
	all := k.turn(func(ctx context.Context) (int, error) {
		os := raysys.GetAll(ctx, []raysys.Ref[int]{k.get(ctx, "b"), k.get(ctx, "a"), k.get(ctx, "c")})
		if os[0].Err != nil || os[2].Err != nil {
			t.Error("the others were refused too:", os)
		}
		return 0, os[1].Err
	})
	completed := k.turn(func(ctx context.Context) (n int, err error) {
		for _, r := range raysys.AsCompleted(ctx, []raysys.Ref[int]{k.get(ctx, "b"), k.get(ctx, "a"), k.get(ctx, "c")}) {
			if _, e := r.Get(ctx); e != nil {
				err = e
			} else {
				n++
			}
		}
		if n != 2 {
			t.Error(n, "came, want 2")
		}
		return n, err
	})
	k.run(t, func(ctx context.Context) {
		isCycle(t, nodetest.Fails(t, ctx, all.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
		isCycle(t, nodetest.Fails(t, ctx, completed.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
	})
}

// TestCycleThroughArgument: a call waits for its argument, whose producer calls the grain that waits for the call.
func TestCycleThroughArgument(t *testing.T) {
	k := newKnot()
	id := grains.Method(k.kind, "id", func(_ *cell, _ context.Context, x int) (int, error) { return x, nil })
	same := tasks.DefineIn(k.table, "same", func(_ context.Context, x int) (int, error) { return x, nil })
	grain := k.turn(func(ctx context.Context) (int, error) {
		return id.On(ctx, k.kind.Get("b"), k.call.Go(ctx, "a")).Get(ctx)
	})
	task := k.turn(func(ctx context.Context) (int, error) { return same.On(ctx, k.call.Go(ctx, "a")).Get(ctx) })
	k.run(t, func(ctx context.Context) {
		isCycle(t, nodetest.Fails(t, ctx, grain.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "call")
		isCycle(t, nodetest.Fails(t, ctx, task.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn", "call")
		wants(t, ctx, id.On(ctx, k.kind.Get("b"), k.call.Go(ctx, "a")), 1)
	})
}

// TestTwoSidesAtOnce: two grains call each other at the same time. Both calls end, and at least one is refused.
func TestTwoSidesAtOnce(t *testing.T) {
	k := newKnot()
	cross := grains.Method(k.kind, "cross", func(_ *cell, ctx context.Context, key string) (int, error) {
		return k.get(ctx, key).Get(ctx)
	})
	ctx := nodetest.Driver(t, k.table)
	refused := 0
	for i := range 500 {
		a, b := fmt.Sprint("a", i%7), fmt.Sprint("b", i%7)
		for _, o := range raysys.GetAll(ctx, []raysys.Ref[int]{
			cross.Call(ctx, k.kind.Get(a), b), cross.Call(ctx, k.kind.Get(b), a),
		}) {
			if o.Err != nil {
				refused++
				isCycle(t, o.Err, "k/"+a, "k/"+b)
			}
		}
	}
	t.Logf("%d of 1000 refused", refused)
}

// TestDriverWaits: a driver is no turn, so its waits close no cycle.
func TestDriverWaits(t *testing.T) {
	k := newKnot()
	k.run(t, func(ctx context.Context) {
		g := k.kind.Get("a")
		slow := k.by.Call(ctx, g, "b")
		for _, o := range raysys.GetAll(ctx, []raysys.Ref[int]{k.get(ctx, "a"), slow, k.get(ctx, "a")}) {
			if o.Err != nil {
				t.Error(o.Err)
			}
		}
	})
}
