package system_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	// nights has an entry for each run of the task nightly, with its gate.
	nights sync.Map

	// nightly gives another number in each run, once its gate is open.
	nightly = tasks.DefineIn(table, "nightly", func(ctx context.Context, gate string) (int, error) {
		nights.Store(fmt.Sprint(gate, " ", drawn.Add(1)), gate)
		return draw.Go(ctx, gate).Get(ctx)
	})
)

// runs is how often the task with the gate has begun.
func runs(gate string) (n int) {
	nights.Range(func(_, g any) bool {
		if g == gate {
			n++
		}
		return true
	})
	return n
}

// numberOf is the outcome of the task with the name, as a node sees it.
func numberOf(ctx context.Context, t *testing.T, name string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	n, err := raysys.Lookup[int](ctx, name).Get(ctx)
	if err != nil {
		t.Errorf("the task %q: %v", name, err)
	}
	return n
}

// begun submits nightly under a name and waits until it runs.
func begun(ctx context.Context, t *testing.T, name, gate string) raysys.Ref[int] {
	t.Helper()
	r := nightly.With(raysys.Detached(name)).Go(ctx, gate)
	settles(t, "the task runs", func() bool { return runs(gate) == 1 })
	return r
}

// oneOutcome checks that all nodes that live have the same outcome of the task, and returns it.
func (f *fleet) oneOutcome(t *testing.T, name string) (outcome int) {
	t.Helper()
	for _, n := range f.nodes {
		if n.Err() != nil {
			continue
		}
		v := numberOf(n.Context(context.Background()), t, name)
		if outcome == 0 {
			outcome = v
		}
		if v == 0 || v != outcome {
			t.Errorf("node %s has %d of the task %q, another has %d", n.Name(), v, name, outcome)
		}
	}
	return outcome
}

// TestDetachedOutlives: a task with a name goes on whichever nodes die, the one that submitted it among them, and all nodes
// see one outcome, which stays.
func TestDetachedOutlives(t *testing.T) {
	for name, dead := range map[string][]raysys.NodeID{
		"its driver":             {"s"},
		"its driver and workers": {"s", "w1", "w2"}, // among them those that lead shards
	} {
		t.Run(name, func(t *testing.T) {
			f, sctx, ctx := newWill(t)
			gate := newGate()
			begun(sctx, t, "nightly", gate)
			waits := raysys.Lookup[int](ctx, "nightly")
			for _, name := range dead {
				f.kill(name)
			}
			settles(t, "the task runs again", func() bool { return runs(gate) > 1 })
			openGate(gate)
			outcome := f.oneOutcome(t, "nightly")
			if n, err := waits.Get(ctx); n != outcome || err != nil {
				t.Errorf("a reference from before the deaths has %d, %v, want %d", n, err, outcome)
			}
			f.kill("w3") // or the one that ran it in the end
			f.place("w4", system.Worker)
			if again := f.oneOutcome(t, "nightly"); again != outcome {
				t.Errorf("the outcome is %d and was %d", again, outcome)
			}
		})
	}
}

// TestDetachedAfterRestart: a restart of all nodes brings back a task with a name, and keeps the outcome of another.
func TestDetachedAfterRestart(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate, done := newGate(), newGate()
	begun(sctx, t, "nightly", gate)
	begun(sctx, t, "done", done)
	openGate(done)
	was := numberOf(ctx, t, "done")
	settles(t, "the outcome is recorded", func() bool { return system.Recorded(f.node("s")) == 1 })
	f.kill("s")
	f.kill("w1")
	for _, n := range f.nodes { // the others know of these deaths: no lease has to end
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	f.nodes = nil
	before := runs(gate)
	f.place("w5", system.Worker)
	f.place("w6", system.Worker)
	settles(t, "the task runs again", func() bool { return runs(gate) > before })
	openGate(gate)
	f.oneOutcome(t, "nightly")
	if n := f.oneOutcome(t, "done"); n != was {
		t.Errorf("the outcome after the restart is %d and was %d", n, was)
	}
	if n := runs(done); n != 1 {
		t.Errorf("a task that had settled has run %d times", n)
	}
}

// TestDetachedJoins: the next attempt of a task with a name joins the children that other nodes know, also where the death of
// the submitter has cancelled them.
func TestDetachedJoins(t *testing.T) {
	f, sctx, ctx := newWill(t)
	f.join("spare", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
	meet(t, f.nodes...)
	gate := newGate()
	submits.With(on("w1"), raysys.Detached("parent")).Go(sctx, gate)
	recorded := func() int { return system.Recorded(f.node("w1")) + system.Recorded(f.node("spare")) }
	settles(t, "the child is recorded", func() bool { return recorded() == 1 })
	f.kill("s")
	openGate(gate + " of the child")
	openGate(gate)
	outcome := f.oneOutcome(t, "parent")
	if told := summed(ctx, t, "w2"); told != outcome {
		t.Errorf("the parent has %d of its child, another node was told %d", outcome, told)
	}
}

// stubborn ends when its gate is open, and not when it is cancelled.
var stubborn = tasks.DefineIn(table, "stubborn", func(_ context.Context, gate string) (int, error) {
	nights.Store(gate, gate)
	<-gateOf(gate)
	return 1, nil
})

// TestDetachedDriverCloses: a driver that ends does not take the task along, or settle it: that the end has cancelled it there is no
// outcome, however long the end takes.
func TestDetachedDriverCloses(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.place("w2", system.Worker)
	s, sctx := f.place("s", system.Both)
	d, ctx := f.place("d", system.Driver)
	meet(t, s, d, w1, w2)
	gate, end := newGate(), newGate()
	r := begun(sctx, t, "nightly", gate)
	waits := raysys.Lookup[int](ctx, "nightly")
	stubborn.With(on("s")).Go(sctx, end)
	settles(t, "a task runs on the driver", func() bool { return runs(end) == 1 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	settles(t, "the end has cancelled the task on the driver", core.FutureOf(r.Link).Settled)
	for i := range 5 { // meanwhile the driver could have the cancellation recorded
		if n, err := draw.With(raysys.Detached(fmt.Sprint("other ", i))).Go(ctx, "open").Get(ctx); n == 0 || err != nil {
			t.Errorf("another task has %d, %v", n, err)
		}
	}
	openGate(end)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	openGate(gate)
	outcome := f.oneOutcome(t, "nightly")
	if n, err := waits.Get(ctx); n != outcome || err != nil {
		t.Errorf("a reference from before the end has %d, %v, want %d", n, err, outcome)
	}
}

// TestDetachedName: a name is of one task while that runs; then the next has it.
func TestDetachedName(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate, second := newGate(), newGate()
	first := begun(sctx, t, "nightly", gate)
	joined := nightly.With(raysys.Detached("nightly")).Go(ctx, gate)
	if _, err := nightly.With(raysys.Detached("nightly")).Go(ctx, second).Get(ctx); !errors.Is(err, raysys.ErrNameTaken) {
		t.Errorf("other content under the name of a task that runs: %v, want ErrNameTaken", err)
	}
	if _, err := draw.With(raysys.Detached("nightly")).Go(ctx, gate).Get(ctx); !errors.Is(err, raysys.ErrNameTaken) {
		t.Errorf("another function under the name of a task that runs: %v, want ErrNameTaken", err)
	}
	openGate(gate)
	a, err := first.Get(sctx)
	b, err2 := joined.Get(ctx)
	if a == 0 || a != b || err != nil || err2 != nil || runs(gate) != 1 {
		t.Errorf("the task has %d, %v; who joined it %d, %v; it has run %d times", a, err, b, err2, runs(gate))
	}
	if n := f.oneOutcome(t, "nightly"); n != a {
		t.Errorf("the outcome under the name is %d, want %d", n, a)
	}
	settles(t, "the outcome is recorded", func() bool { return system.Recorded(f.node("s")) == 0 })
	old := raysys.Lookup[int](ctx, "nightly")
	openGate(second)
	c, err := nightly.With(raysys.Detached("nightly")).Go(ctx, second).Get(ctx)
	if c == 0 || c == a || err != nil {
		t.Errorf("the next task has %d, %v; the first had %d", c, err, a)
	}
	if n := f.oneOutcome(t, "nightly"); n != c {
		t.Errorf("the outcome under the name is %d, want that of the next task, %d", n, c)
	}
	if n, err := old.Get(ctx); n != a || err != nil {
		t.Errorf("a reference to the first task has %d, %v, want %d", n, err, a)
	}
	if err := raysys.Forget(sctx, "nightly"); err != nil {
		t.Error(err)
	}
	if _, err := raysys.Lookup[int](ctx, "nightly").Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("a name that was forgotten: %v, want ErrNotFound", err)
	}
	if err := raysys.Forget(ctx, "nightly"); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("a name that was forgotten is forgotten again: %v, want ErrNotFound", err)
	}
	if _, err := raysys.Put(ctx, 7, raysys.Named("object")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := nightly.With(raysys.Detached("object")).Go(ctx, gate).Get(ctx); !errors.Is(err, raysys.ErrNameTaken) {
		t.Errorf("the name of an object: %v, want ErrNameTaken", err)
	}
}

// TestDetachedRace: of nodes that submit one name at the same time one has it: the task runs once, and all have its outcome.
func TestDetachedRace(t *testing.T) {
	f, _, ctx := newWill(t)
	for round := range 10 {
		name, gate := fmt.Sprint("race ", round), newGate()
		refs := make([]raysys.Ref[int], len(f.nodes))
		var submitted sync.WaitGroup
		for i, n := range f.nodes {
			submitted.Go(func() {
				refs[i] = nightly.With(raysys.Detached(name)).Go(n.Context(context.Background()), gate)
			})
		}
		submitted.Wait()
		openGate(gate)
		outcome := numberOf(ctx, t, name)
		for i, n := range f.nodes {
			if v, err := refs[i].Get(n.Context(context.Background())); v != outcome || err != nil {
				t.Errorf("node %s has %d, %v, want %d", n.Name(), v, err, outcome)
			}
		}
		if n := runs(gate); n != 1 {
			t.Errorf("%d nodes have submitted one name, and the task has run %d times", len(f.nodes), n)
		}
	}
}

// TestDetachedFailure: a failure is an outcome like a result.
func TestDetachedFailure(t *testing.T) {
	f, sctx, ctx := newWill(t)
	_, err := fails.With(raysys.Detached("fails"), raysys.Retries(0)).Go(sctx, 1).Get(sctx)
	if !errors.Is(err, errShort) {
		t.Error(err)
	}
	settles(t, "the outcome is recorded", func() bool { return system.Recorded(f.node("s")) == 0 })
	f.kill("s")
	if _, err := raysys.Lookup[int](ctx, "fails").Get(ctx); !errors.Is(err, errShort) {
		t.Errorf("after the submitter's death the task has %v, want its failure", err)
	}
}

// TestDetachedObject: an outcome that is an object is found under the name after the death of one of the two nodes that have it.
func TestDetachedObject(t *testing.T) {
	f, sctx, ctx := newWill(t)
	if _, _, err := raysys.Wait(sctx, []raysys.Ref[parcel]{pack.With(on("w1"), raysys.Detached("parcel")).Go(sctx, order{3, large, 0})}, 1); err != nil {
		t.Fatal(err)
	}
	settles(t, "the outcome is recorded", func() bool { return system.Recorded(f.node("s")) == 0 })
	f.kill("s")
	p, err := raysys.Lookup[parcel](ctx, "parcel").Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.seed(); n != 3 || err != nil {
		t.Error(n, err)
	}
	if err := raysys.Forget(ctx, "parcel"); err != nil {
		t.Error(err)
	}
}

// TestDetachedStoreAway: a submission waits for the store, at most until its context ends.
func TestDetachedStoreAway(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	through := func(c *system.Config) { c.Cluster.Store = kv }
	w, _ := f.place("w1", system.Worker, through)
	d, ctx := f.place("d", system.Driver, through)
	meet(t, d, w)
	hold := make(chan struct{})
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			<-hold
		}
		return flaky.None
	})
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	gate := newGate()
	openGate(gate)
	if _, err := nightly.With(raysys.Detached("short of time")).Go(short, gate).Get(ctx); !errors.Is(err, raysys.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a submission whose context ends while the store is away: %v, want ErrOutcomeUnknown", err)
	}
	submitted := make(chan raysys.Ref[int])
	go func() { submitted <- nightly.With(raysys.Detached("patient")).Go(ctx, gate) }()
	select {
	case <-submitted:
		t.Fatal("a task is submitted while the store is away")
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	if n, err := (<-submitted).Get(ctx); n == 0 || err != nil {
		t.Errorf("a submission that waited for the store: %d, %v", n, err)
	}
}

// TestDetachedUnknownFunction: a task whose function no worker has waits for one that has it.
func TestDetachedUnknownFunction(t *testing.T) {
	f, _, ctx := newWill(t)
	program := raysys.NewTable()
	gate := newGate()
	rare := tasks.DefineIn(program, "rare", func(ctx context.Context, gate string) (int, error) {
		select {
		case <-gateOf(gate):
			return 5, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	has := func(c *system.Config) { c.Table = program }
	o, octx := f.place("o", system.Both, has)
	meet(t, f.nodes...)
	rare.With(raysys.Detached("rare")).Go(octx, gate)
	if n := system.Recorded(o); n != 1 {
		t.Fatalf("%d tasks are recorded when Go has returned, want 1", n)
	}
	f.kill("o")
	waits := raysys.Lookup[int](ctx, "rare")
	openGate(gate)
	f.place("o2", system.Worker, has)
	if n, err := waits.Get(ctx); n != 5 || err != nil {
		t.Errorf("the task has %d, %v once a worker has its function", n, err)
	}
}

// seedOf reads a parcel.
var seedOf = tasks.DefineIn(table, "seedOf", func(_ context.Context, p parcel) (int, error) { return p.seed() })

// TestDetachedInputAfterRestart: a task with a name waits for its input, the object of another, while the nodes that have it are away.
func TestDetachedInputAfterRestart(t *testing.T) {
	f, at, on := newFleet(t), on, disks{}
	on.place(f, "w1", system.Worker)
	on.place(f, "w2", system.Worker)
	_, sctx := f.place("s", system.Driver) // as most drivers, without a directory
	_, _ = f.place("d", system.Driver)
	meet(t, f.nodes...)
	r := pack.With(raysys.Detached("parcel")).Go(sctx, order{3, large, 0})
	w := seedOf.With(at("w3"), raysys.WaitForResources(), raysys.Detached("seed")).On(sctx, r)
	settles(t, "one task has its outcome, and one is recorded", func() bool {
		rec, err := system.TaskRecord(f.node("s"), core.FutureOf(w.Link))
		return err == nil && len(rec.Recipe) > 0 && system.Recorded(f.node("s")) == 1
	})
	f.kill("s")
	f.kill("w1")
	for _, n := range f.nodes { // the others know of these deaths: no lease has to end
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	f.nodes = nil
	ctx := on.place(f, "w3", system.Worker)
	settles(t, "the node without the parcel is the submitter", func() bool {
		rec, err := system.TaskRecord(f.node("w3"), core.FutureOf(w.Link))
		return err == nil && rec.Submitter.Node == "w3"
	})
	if p, err := raysys.Lookup[parcel](ctx, "parcel").Get(ctx); !errors.Is(err, raysys.ErrUnreachable) {
		t.Errorf("the parcel has %d numbers, %v; want ErrUnreachable", len(p.Data), err)
	}
	on.place(f, "w1", system.Worker)
	on.place(f, "w2", system.Worker)
	if n := f.oneOutcome(t, "seed"); n != 3 {
		t.Errorf("the outcome is %d, want 3", n)
	}
}
