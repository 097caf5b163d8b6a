package system_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	// givesChild returns a reference to a child of its own that another node runs, and that has not settled.
	givesChild = tasks.DefineIn(table, "givesChild", func(ctx context.Context, gate string) (parcel, error) {
		p := newParcel(1, 3)
		p.Inner = []raysys.Handle[parcel]{packLater.With(on("w3")).Go(ctx, gate).Handle()}
		return p, nil
	})
	// sameBranch submits two different children on a context of the same number, and has both known to a grain.
	sameBranch = tasks.DefineIn(table, "sameBranch", func(ctx context.Context, gate string) (int, error) {
		var err error
		for _, arg := range []string{gate, gate + " of another"} {
			h := draw.With(on("w3")).Go(raysys.Branch(ctx, 1), arg).Handle()
			if _, bad := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{h}).Get(ctx); bad != nil {
				err = bad
			}
		}
		return 0, err
	})
)

// storeAway has each write wait until the store is back.
func storeAway(kv *flaky.KV) (back func()) {
	hold := make(chan struct{})
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			<-hold
		}
		return flaky.None
	})
	return func() { close(hold) }
}

// TestLeavesUnrecorded: a reference leaves while the store is away, a second later and unrecorded, and serves while its submitter lives.
func TestLeavesUnrecorded(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	through := func(c *system.Config) { c.Cluster.Store = kv }
	for _, w := range []raysys.NodeID{"w1", "w2"} {
		f.place(w, system.Worker, through)
	}
	s, sctx := f.place("s", system.Driver, through)
	_, ctx := f.place("d", system.Driver, through)
	meet(t, f.nodes...)
	g := holders.Get("w2")
	if _, err := holderHold.With(on("w2")).Call(sctx, g, nil).Get(sctx); err != nil { // which places the grain
		t.Fatal(err)
	}
	back := storeAway(kv)
	defer back()
	gate := newGate()
	h := draw.With(on("w1")).Go(sctx, gate).Handle()
	began := time.Now()
	if n, err := holderHold.Call(sctx, g, []raysys.Handle[int]{h}).Get(sctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("the reference left after %v; want it to wait a second for the store", waited)
	}
	if n := system.Recorded(s); n != 0 {
		t.Errorf("%d tasks are recorded while the store is away", n)
	}
	openGate(gate)
	if n := summed(ctx, t, "w2"); n == 0 {
		t.Error("the grain has nothing of the task")
	}
}

// TestDetachedGoesOn: a task with a name runs on while the store is away. Its outcome is told once it is recorded.
func TestDetachedGoesOn(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	through := func(c *system.Config) { c.Cluster.Store = kv }
	f.place("w1", system.Worker, through)
	f.place("w2", system.Worker, through)
	_, ctx := f.place("d", system.Driver, through)
	meet(t, f.nodes...)
	gate := newGate()
	r := begun(ctx, t, "goes on", gate)
	before := drawn.Load()
	back := storeAway(kv)
	openGate(gate)
	settles(t, "the task runs to its end", func() bool { return drawn.Load() > before })
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if n, err := raysys.Lookup[int](short, "goes on").Get(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an outcome that is not recorded is told: %d, %v", n, err)
	}
	back()
	if n, err := r.Get(ctx); n == 0 || err != nil {
		t.Error(n, err)
	}
	f.oneOutcome(t, "goes on")
	if n := runs(gate); n != 1 {
		t.Errorf("the task ran %d times", n)
	}
}

// TestAdoptedFromResult: a task that a result refers to is recorded before the result is told. It outlives the node that submitted it.
func TestAdoptedFromResult(t *testing.T) {
	f, _, ctx := newWill(t)
	gate := newGate()
	p, err := givesChild.With(on("w1")).Go(ctx, gate).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.kill("w1")
	openGate(gate)
	got, err := p.Inner[0].Ref().Get(ctx)
	if err == nil {
		_, err = got.seed()
	}
	if err != nil {
		t.Errorf("a task that a result refers to, after the death of its submitter: %v", err)
	}
}

// TestSameBranch: two children under one number of Branch are two tasks of one id, and the second is refused.
func TestSameBranch(t *testing.T) {
	_, _, ctx := newWill(t)
	gate := newGate()
	defer openGate(gate)
	defer openGate(gate + " of another")
	if _, err := sameBranch.With(on("w1")).Go(ctx, gate).Get(ctx); !errors.Is(err, raysys.ErrNondeterministic) {
		t.Errorf("one number of Branch twice: %v, want ErrNondeterministic", err)
	}
}
