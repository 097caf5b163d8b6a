package taskengine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// A worker whose queue is full gives tasks back, and none of them counts an attempt.
func TestGiveBack(t *testing.T) {
	table := raysys.NewTable()
	attempt := tasks.DefineIn(table, "attempt", func(ctx context.Context, x int) (int, error) {
		tu, _, _ := core.TurnOf(ctx)
		return tu.Attempt()*1000 + x, nil
	})
	d := newHost(t, "driver", table, 0)
	var links []*link
	for i := range 2 {
		w := newHost(t, fmt.Sprintf("worker%d", i), table, 1, func(c *taskengine.Config) { c.QueueInbound = 3 })
		links = append(links, join(t, d, w))
	}
	var givenBack atomic.Int64
	for _, l := range links {
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
			if k == wire.KindTaskResult && len(p) > 0 && p[len(p)-1] == 2 { // ends in the status of a task given back, or in the number 2
				givenBack.Add(1)
			}
			return deliver
		})
	}
	ctx := d.ctx()
	var refs []raysys.Ref[int]
	for i := range 300 {
		refs = append(refs, attempt.Go(ctx, i))
	}
	for i, r := range refs {
		nodetest.Want(t, ctx, r, 1000+i)
	}
	if givenBack.Load() == 0 {
		t.Error("nothing came back: the test tests nothing")
	}
}

// Drain sends waiting inbound tasks back, lets running ones end, sends the node's own work elsewhere, and then returns.
func TestDrain(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan string, 100), make(chan struct{})
	hold := tasks.Define0In(table, "hold", func(ctx context.Context) (string, error) {
		tu, _, _ := core.TurnOf(ctx)
		began <- string(tu.Job().Node)
		<-open
		return string(tu.Job().Node), nil
	})
	d, a, b := newHost(t, "driver", table, 0), newHost(t, "a", table, 1), newHost(t, "b", table, 1)
	join(t, d, a)
	ctx := d.ctx()
	running := hold.Go(ctx)
	if n := nodetest.Arrive(t, began, "it runs"); n != "a" {
		t.Fatalf("it runs on %s", n)
	}
	own := hold.Go(a.ctx())
	waiting := hold.Go(ctx)
	drained := async(func() error {
		c, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
		defer cancel()
		return a.engine.Drain(c)
	})
	join(t, a, b)
	if n := nodetest.Arrive(t, began, "a's own runs elsewhere"); n != "b" {
		t.Errorf("it runs on %s", n)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with two tasks left: %v", err)
	default:
	}
	nodetest.Eventually(t, "a says that it drains", func() bool { return a.engine.Load().Draining })
	close(open)
	if err := nodetest.Arrive(t, drained, "it is drained"); err != nil {
		t.Error(err)
	}
	nodetest.Want(t, ctx, running, "a")
	nodetest.Want(t, a.ctx(), own, "b")
	join(t, d, b)
	nodetest.Want(t, ctx, waiting, "b")
	late, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.engine.Drain(late); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A drain that is given up says what is left.
func TestDrainGivesUp(t *testing.T) {
	f := newFar(t)
	f.wait.Go(f.ctx)
	nodetest.Arrive(t, f.began, "it runs")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no time"))
	if err := f.w.engine.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 of others") || !strings.Contains(err.Error(), "no time") {
		t.Errorf("got %v", err)
	}
}

// A node to avoid gets nothing new.
func TestAvoid(t *testing.T) {
	f := newFunctions()
	d, a, b := newHost(t, "driver", f.table, 0), newHost(t, "a", f.table, 1), newHost(t, "b", f.table, 1)
	d.engine.Avoid("a", true)
	join(t, d, a)
	ctx := d.ctx()
	r := f.where.Go(ctx)
	join(t, d, b)
	nodetest.Want(t, ctx, r, "b")
	for range 10 {
		nodetest.Want(t, ctx, f.where.Go(ctx), "b")
	}
	d.engine.Avoid("a", false)
	d.engine.Avoid("b", true)
	for range 10 {
		nodetest.Want(t, ctx, f.where.Go(ctx), "a")
	}
}

type holder struct {
	In  raysys.Ref[int]
	Has raysys.Handle[int]
}

// References travel both ways: a dependency is there before the task takes a CPU, a handle is passed on, a result may
// refer to what the task submitted.
func TestReferencesElsewhere(t *testing.T) {
	f := newFunctions()
	table := f.table
	open := make(chan struct{})
	hold := tasks.DefineIn(table, "hold", func(_ context.Context, x int) (int, error) { <-open; return x, nil })
	use := tasks.DefineIn(table, "use", func(ctx context.Context, h holder) (int, error) {
		v, err := h.In.Get(ctx)
		if err != nil {
			return 0, err
		}
		if h.Has.Ref().IsZero() {
			return v, nil
		}
		u, err := h.Has.Ref().Get(ctx)
		return v + u, err
	})
	give := tasks.DefineIn(table, "give", func(ctx context.Context, x int) ([]raysys.Ref[int], error) {
		return []raysys.Ref[int]{f.square.Go(ctx, x), raysys.Put(ctx, x)}, nil
	})
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 3)
	join(t, d, w)
	ctx := d.ctx()
	dep := hold.Go(ctx, 5)
	r := use.Go(ctx, holder{In: dep, Has: f.square.Go(ctx, 3).Handle()})
	on := f.square.On(ctx, dep)
	failed := use.Go(ctx, holder{In: f.fail.Go(ctx, "the dependency failed")})
	if _, err := nodetest.Get(t, ctx, failed); err == nil || !strings.Contains(err.Error(), "the dependency failed") {
		t.Errorf("got %v", err)
	}
	close(open)
	nodetest.Want(t, ctx, r, 14)
	nodetest.Want(t, ctx, on, 25)
	given, err := nodetest.Get(t, ctx, give.Go(ctx, 7))
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Want(t, ctx, given[0], 49)
	nodetest.Want(t, ctx, given[1], 7)
	nodetest.Want(t, ctx, f.square.On(ctx, given[0]), 49*49)
	nodetest.Want(t, ctx, use.Go(ctx, holder{In: given[0], Has: given[1].Handle()}), 56)
}

var tenant = raysys.NewContextKey[string]("tasks-test.tenant")

// Declared values travel with a task and with what it submits.
func TestValuesElsewhere(t *testing.T) {
	table := raysys.NewTable()
	who := tasks.Define0In(table, "who", func(ctx context.Context) (string, error) {
		v, _ := tenant.From(ctx)
		return v, nil
	})
	deep := tasks.Define0In(table, "deep", func(ctx context.Context) (string, error) { return who.Go(ctx).Get(ctx) })
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
	join(t, d, w)
	ctx := d.ctx()
	for _, name := range []string{"ada", "bob", "ada"} {
		nodetest.Want(t, ctx, deep.Go(tenant.With(ctx, name)), name)
	}
	nodetest.Want(t, ctx, who.Go(ctx), "")
}

type soon struct{}

func (soon) Error() string   { return "not yet" }
func (soon) Temporary() bool { return true }

// A task with other needs than one CPU goes where Config.Place says, waits while that says to, and fails when it says
// that there is no such place.
func TestPlace(t *testing.T) {
	f := newFunctions()
	var d *tasksRuntime
	var to atomic.Pointer[end]
	var say atomic.Value
	d = newHost(t, "driver", f.table, 1, func(c *taskengine.Config) {
		c.Place = func(r taskengine.PlaceRequest) (wire.Peer, error) {
			if err, _ := say.Load().(error); err != nil && r.Options.Resources.GPU == 9 {
				return nil, err
			}
			if r.Options.Resources.GPU == 0 && r.Options.Labels["zone"] == "" {
				return nil, nil
			}
			if e := to.Load(); e != nil {
				return e, nil
			}
			return nil, soon{}
		}
	})
	w := newHost(t, "worker", f.table, 2, func(c *taskengine.Config) {
		c.Resources.GPU = 2
		c.Resources.Custom = map[string]float64{"licence": 1}
	})
	ctx := d.ctx()
	gpu := f.where.With(raysys.GPU(1), raysys.CPU(0.5))
	early := gpu.Go(ctx)
	l := join(t, d, w)
	if raysys.PhaseOf(early) != raysys.PhasePending {
		t.Error("it has no place yet")
	}
	to.Store(l.ends[0])
	d.engine.PeerLoad(l.ends[0], w.engine.Load())
	nodetest.Want(t, ctx, early, "worker")
	var refs []raysys.Ref[string]
	for range 20 {
		refs = append(refs, gpu.Go(ctx), f.where.With(raysys.GPU(0.5), raysys.Resource("licence", 1)).Go(ctx))
	}
	for _, r := range refs {
		nodetest.Want(t, ctx, r, "worker")
	}
	nodetest.Want(t, ctx, f.where.With(raysys.CPU(0.5)).Go(ctx), "driver")
	nodetest.Want(t, ctx, f.where.With(raysys.Label("zone", "far")).Go(ctx), "worker")
	nodetest.Want(t, ctx, f.where.With(raysys.Placement(raysys.Spread)).Go(ctx), "driver")
	if _, err := nodetest.Get(t, ctx, f.where.With(raysys.GPU(4)).Go(ctx)); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Errorf("more than the node has: %v", err)
	}
	if _, err := nodetest.Get(t, ctx, f.where.With(raysys.CPU(4)).Go(ctx)); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Errorf("more than this node has: %v", err)
	}
	say.Store(fmt.Errorf("%w: no such node", raysys.ErrNoCapacity))
	if _, err := nodetest.Get(t, ctx, f.where.With(raysys.GPU(9)).Go(ctx)); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), "no such node") {
		t.Errorf("nowhere: %v", err)
	}
	if free := w.engine.FreeCPU(); free != 2 {
		nodetest.Eventually(t, "all is given back", func() bool { return w.engine.FreeCPU() == 2 })
	}
	// The node goes: its shaped tasks are tried again.
	slow := gpu.With(raysys.GPU(1), raysys.Backoff(0, time.Millisecond))
	again := slow.Go(ctx)
	to.Store(nil)
	l.cut(errSevered)
	to.Store(join(t, d, w).ends[0])
	d.engine.Avoid("nobody", true)
	nodetest.Want(t, ctx, again, "worker")
}

// Neither the node's own tasks nor those of others wait for all of the other.
func TestInboundAndOwnShareTheWorkers(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan struct{}), make(chan struct{})
	hold := tasks.Define0In(table, "hold", func(context.Context) (int, error) { began <- struct{}{}; <-open; return 0, nil })
	var order []string
	note := tasks.DefineIn(table, "note", func(_ context.Context, s string) (int, error) { order = append(order, s); return 0, nil })
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
	hold.Go(w.ctx())
	nodetest.Arrive(t, began, "the CPU is taken")
	join(t, d, w)
	ctx, own := d.ctx(), w.ctx()
	var refs []raysys.Ref[int]
	for range 10 {
		refs = append(refs, note.Go(own, "own"))
	}
	inboundTask := note.Go(ctx, "inbound task")
	nodetest.Eventually(t, "the inbound task is there", func() bool { return w.engine.Load().Inbound == 1 })
	close(open)
	nodetest.Want(t, ctx, inboundTask, 0)
	for _, r := range refs {
		nodetest.Want(t, own, r, 0)
	}
	if order[0] != "inbound task" && order[1] != "inbound task" {
		t.Errorf("the order was %v", order)
	}
}

// Tasks that take longer than their like do not keep others idle: a node gives back what it cannot begin soon.
func TestLongTasksAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		ran := map[string]int{}
		var mu sync.Mutex
		long := tasks.Define0In(f.table, "long", func(ctx context.Context) (int, error) {
			<-time.After(time.Second)
			tu, _, _ := core.TurnOf(ctx)
			mu.Lock()
			defer mu.Unlock()
			ran[string(tu.Job().Node)]++
			return tu.Attempt(), nil
		})
		d, a := newHost(t, "driver", f.table, 0), newHost(t, "a", f.table, 1)
		join(t, d, a)
		ctx := d.ctx()
		// In the bubble time stands still while tasks compute, so the first ones seem to take no time at all.
		for _, r := range f.square.Map(ctx, make([]int, 100)) {
			nodetest.Want(t, ctx, r, 0)
		}
		var refs []raysys.Ref[int]
		for range 20 {
			refs = append(refs, long.Go(ctx))
		}
		<-time.After(time.Millisecond) // the last may wait for its submitter, which does not ask for it, before it leaves
		synctest.Wait()
		if n := a.engine.Load().Inbound; n != 20 {
			t.Fatalf("%d tasks are at a: the test tests nothing", n)
		}
		for _, name := range []string{"b", "c", "d"} {
			join(t, d, newHost(t, name, f.table, 1))
		}
		start := time.Now()
		for _, r := range refs {
			nodetest.Want(t, ctx, r, 1)
		}
		// Where one node keeps all of them they take 20 s, where each has as many as it can begin soon 5 s.
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("20 tasks of a second on four nodes took %v: %v", took, ran)
		}
	})
}

// TestGivenBackByClass: tasks that a node gives back wait at their submitter by their class: those of class Low begin after Normal ones
// that were submitted later, and Normal ones after those of class High.
func TestGivenBackByClass(t *testing.T) {
	for name, c := range map[string]struct{ back, late raysys.Class }{
		"low": {raysys.Low, raysys.Normal}, "normal": {raysys.Normal, raysys.High},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFunctions()
				var begun []raysys.Class
				var mu sync.Mutex
				long := tasks.DefineIn(f.table, "long", func(_ context.Context, c raysys.Class) (int, error) {
					mu.Lock()
					begun = append(begun, c)
					mu.Unlock()
					<-time.After(100 * time.Millisecond)
					return 0, nil
				})
				d, a := newHost(t, "driver", f.table, 0), newHost(t, "a", f.table, 1)
				join(t, d, a)
				ctx := d.ctx()
				for _, r := range f.square.Map(ctx, make([]int, 100)) { // they take no time, so that a is sent many tasks ahead
					nodetest.Want(t, ctx, r, 0)
				}
				var refs []raysys.Ref[int]
				for range 20 {
					refs = append(refs, long.With(raysys.Priority(c.back)).Go(ctx, c.back))
				}
				<-time.After(time.Millisecond)
				synctest.Wait()
				if n := a.engine.Load().Inbound; n != 20 {
					t.Fatalf("%d tasks are at a: the test tests nothing", n)
				}
				<-time.After(150 * time.Millisecond)
				if n := a.engine.Load().Inbound; n > 10 {
					t.Fatalf("%d tasks are at a, which has given none back: the test tests nothing", n)
				}
				mu.Lock()
				before := len(begun)
				mu.Unlock()
				for range 5 {
					refs = append(refs, long.With(raysys.Priority(c.late)).Go(ctx, c.late))
				}
				for _, r := range refs {
					nodetest.Want(t, ctx, r, 0)
				}
				last := 0
				for i, of := range begun {
					if of == c.late {
						last = i
					}
				}
				if waited := last + 1 - before - 5; waited > 2 { // what a has already
					t.Errorf("%d tasks of class %v that were given back began before ones of class %v: %v", waited, c.back, c.late, begun)
				}
			})
		})
	}
}

// A goroutine that waits for the one task it submitted sends it itself: no pause, no other goroutine.
func TestDriverSendsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 1)
		l := join(t, d, w)
		ctx := d.ctx()
		start := time.Now()
		for i := range 10 {
			synctest.Wait() // the forwarder sleeps
			before := l.ends[0].flushes.Load()
			l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
				if k == wire.KindTasks && !strings.Contains(string(debug.Stack()), "TestDriverSendsItself") {
					t.Error("another goroutine sent it")
				}
				return deliver
			})
			if v, err := f.square.Go(ctx, i).Get(ctx); v != i*i || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
			if l.ends[0].flushes.Load() == before {
				t.Error("it was not flushed")
			}
		}
		l.rule(func(raysys.NodeID, wire.Class, wire.Kind, []byte) fate { return deliver })
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
		// One that nobody waits for leaves all the same, soon.
		r := f.square.Go(ctx, 11)
		<-time.After(5 * time.Millisecond)
		if raysys.PhaseOf(r) != raysys.PhaseReady {
			t.Error("it was not sent")
		}
		// And so does one that is waited for in another way.
		start = time.Now()
		synctest.Wait()
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, err := f.square.Go(ctx, 12).Get(sub); err != nil || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// Nodes that are all busy with their own keep their own; when one of them becomes idle it helps.
func TestBusyPeersAreLeftAlone(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan string, 1000), make(chan struct{})
	hold := tasks.DefineIn(table, "hold", func(ctx context.Context, n int) (string, error) {
		tu, _, _ := core.TurnOf(ctx)
		began <- string(tu.Job().Node)
		if n == 1 {
			<-open
		}
		return string(tu.Job().Node), nil
	})
	a, b := newHost(t, "a", table, 1), newHost(t, "b", table, 1)
	first := hold.Go(b.ctx(), 1)
	nodetest.Arrive(t, began, "b is busy")
	l := join(t, a, b)
	a.engine.PeerLoad(l.ends[0], b.engine.Load())
	slow := hold.Go(a.ctx(), 1)
	nodetest.Arrive(t, began, "a is busy")
	var refs []raysys.Ref[string]
	for range 10 {
		refs = append(refs, hold.Go(a.ctx(), 1))
	}
	<-time.After(10 * time.Millisecond) // many times what the forwarder waits
	if n := l.ends[0].open.Load(); n != 0 {
		t.Errorf("a has sent %d groups to a busy node", n)
	}
	close(open)
	for _, r := range append(refs, first, slow) {
		if _, err := nodetest.Get(t, a.ctx(), r); err != nil {
			t.Error(err)
		}
	}
}

// A node that has become idle says so, and gets work.
func TestIdleNodeIsUsed(t *testing.T) {
	table := raysys.NewTable()
	began := make(chan string, 1000)
	gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	hold := tasks.Define0In(table, "hold", func(ctx context.Context) (string, error) {
		tu, _, _ := core.TurnOf(ctx)
		node := string(tu.Job().Node)
		began <- node
		<-gates[node]
		return node, nil
	})
	a, b := newHost(t, "a", table, 1), newHost(t, "b", table, 1)
	l := join(t, a, b)
	own := []raysys.Ref[string]{hold.Go(b.ctx())}
	nodetest.Arrive(t, began, "b is busy")
	a.engine.PeerLoad(l.ends[0], b.engine.Load())
	long := hold.Go(a.ctx())
	nodetest.Arrive(t, began, "a is busy")
	waiting := hold.Go(a.ctx())
	own = append(own, hold.With(raysys.Detached()).Go(b.ctx())) // b is crowded now, so it will tell
	close(gates["b"])
	nodetest.Want(t, a.ctx(), waiting, "b")
	close(gates["a"])
	nodetest.Want(t, a.ctx(), long, "a")
	for _, r := range own {
		if _, err := nodetest.Get(t, b.ctx(), r); err != nil {
			t.Error(err)
		}
	}
}

// Turns that a peer was told of are shut when their tasks are done, and nothing stays counted.
func TestNothingIsLeft(t *testing.T) {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2)
	l := join(t, d, w)
	ctx := d.ctx()
	for i := range 20 {
		sub, cancel := context.WithCancel(raysys.Branch(ctx, i))
		var refs []raysys.Ref[int]
		for j := range 50 {
			refs = append(refs, f.square.Go(sub, j))
			f.blob.Go(ctx, make([]byte, 1000))
		}
		if i%2 == 0 {
			cancel()
		}
		for _, r := range refs {
			if _, err := nodetest.Get(t, ctx, r); err != nil && !errors.Is(err, raysys.ErrCancelled) {
				t.Error(err)
			}
		}
		cancel()
	}
	nodetest.Eventually(t, "all is done", func() bool {
		l.mu.Lock()
		corks := l.ends[0].corks + l.ends[1].corks
		l.mu.Unlock()
		return corks == 0 && l.ends[0].open.Load() == 0 && w.engine.Load().Inbound == 0 && d.engine.QueuedBytes() == 0 && w.engine.QueuedBytes() == 0
	})
}

// TestViewChangesWhilePlacing: a task is tried again when the view changes after Place has looked at it, and before it
// is known that the task waits.
func TestViewChangesWhilePlacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		var d *tasksRuntime
		var to *end
		first := true
		d = newHost(t, "driver", f.table, 1, func(c *taskengine.Config) {
			c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) {
				if first {
					first = false
					d.engine.Avoid("nobody", true) // the view changes
					synctest.Wait()                // whoever waits has been tried again
					return nil, soon{}
				}
				return to, nil
			}
		})
		w := newHost(t, "worker", f.table, 1, func(c *taskengine.Config) { c.Resources.GPU = 1 })
		to = join(t, d, w).ends[0]
		r := f.where.With(raysys.GPU(1)).Go(d.ctx())
		synctest.Wait()
		if raysys.PhaseOf(r) == raysys.PhasePending {
			t.Fatal("the task waits for a change that has been")
		}
		nodetest.Want(t, d.ctx(), r, "worker")
	})
}
