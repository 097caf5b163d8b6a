package system_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// drawer is a grain with a reference in its State.
type drawer struct {
	item grains.State[raysys.Handle[parcel]]
}

// drawers is a kind of it, whose turns are transactions or not.
type drawers struct {
	kind  grains.Kind[drawer]
	put   grains.Act[drawer, raysys.Handle[parcel]]
	seed  grains.Func0[drawer, int]
	pass  grains.Func0[drawer, raysys.Handle[parcel]]
	leave grains.Act0[drawer]
}

func newDrawers(name string, write bool, opts ...grains.Option) drawers {
	kind := grains.DefineIn[drawer](table, name, opts...)
	return drawers{
		kind: kind,
		put: grains.Action(kind, "put", func(d *drawer, ctx context.Context, h raysys.Handle[parcel]) error {
			if d.item.Value = h; write {
				return d.item.Write(ctx)
			}
			return nil
		}),
		seed: grains.Method0(kind, "seed", func(d *drawer, ctx context.Context) (int, error) {
			p, err := d.item.Value.Ref().Get(ctx)
			if err != nil {
				return 0, err
			}
			return p.seed()
		}).ReadOnly(),
		pass:  grains.Method0(kind, "pass", func(d *drawer, _ context.Context) (raysys.Handle[parcel], error) { return d.item.Value, nil }).ReadOnly(),
		leave: grains.Action0(kind, "leave", func(_ *drawer, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly(),
	}
}

var (
	writtenDrawers = newDrawers("drawer", true)
	durableDrawers = newDrawers("drawer.durable", false, grains.Durable())

	firstRuns, nextRuns atomic.Int64
	firstParcel         = tasks.DefineIn(table, "drawer.first", func(_ context.Context, seed int) (parcel, error) {
		firstRuns.Add(1)
		return newParcel(seed, large), nil
	})
	nextParcel = tasks.DefineIn(table, "drawer.next", func(_ context.Context, p parcel) (parcel, error) {
		nextRuns.Add(1)
		n, err := p.seed()
		return newParcel(n+1, large), err
	})
)

// filled puts the result of a task into the State of g, on w2. It refers to an object of w1, whose task s submitted, and which
// is made of another one. No reference but the State's stays.
func (k *drawers) filled(sctx context.Context, t *testing.T, g grains.Grain[drawer]) {
	t.Helper()
	r := nextParcel.With(on("w1")).On(sctx, firstParcel.With(on("w1")).Go(sctx, 3))
	if _, err := k.put.With(on("w2")).Call(sctx, g, r.Handle()).Get(sctx); err != nil {
		t.Fatal(err)
	}
	if _, err := k.leave.Call(sctx, g).Get(sctx); err != nil {
		t.Fatal(err)
	}
}

// has wants the value of the State's reference, after so many runs of both tasks.
func (k *drawers) has(ctx context.Context, t *testing.T, when string, g grains.Grain[drawer], first, next int64) {
	t.Helper()
	if n, err := k.seed.Call(ctx, g).Get(ctx); n != 4 || err != nil {
		t.Errorf("%s: the object to which the State refers has %d, %v; want 4", when, n, err)
	}
	if a, b := firstRuns.Load(), nextRuns.Load(); a != first || b != next {
		t.Errorf("%s: the tasks have run %d and %d times, want %d and %d", when, a, b, first, next)
	}
}

// recordedAt is how many tasks are recorded whose submitters the nodes are.
func (f *fleet) recordedAt(names ...raysys.NodeID) (n int) {
	for _, name := range names {
		n += system.Recorded(f.node(name))
	}
	return n
}

// instead places a worker that takes what another one took.
func (f *fleet) instead(t *testing.T, name, label raysys.NodeID) {
	t.Helper()
	f.join(name, system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": string(label)} })
}

// onDrawers runs f for both kinds.
func onDrawers(t *testing.T, f func(t *testing.T, k *drawers, g grains.Grain[drawer])) {
	for name, k := range map[string]*drawers{"written": &writtenDrawers, "durable": &durableDrawers} {
		t.Run(name, func(t *testing.T) {
			firstRuns.Store(0)
			nextRuns.Store(0)
			f(t, k, k.kind.Get(newGate()))
		})
	}
}

// TestStateKeepsTask: the task of an object to which a State refers stays with its submitter, though the program holds no
// reference, and the submitter makes the object again.
func TestStateKeepsTask(t *testing.T) {
	onDrawers(t, func(t *testing.T, k *drawers, g grains.Grain[drawer]) {
		f, sctx, ctx := newWill(t)
		k.filled(sctx, t, g)
		settles(t, "no node holds a reference of the submitter", func() bool {
			return system.Held(f.node("s"), "") == 0
		})
		gate := newGate()
		func() {
			hold(sctx, t, "w3", draw.With(on("w3")).Go(sctx, gate).Handle())
		}()
		if n := f.recordedAt("s"); n != 3 {
			t.Fatalf("the submitter has %d recorded tasks, want the two that stay and one that a grain holds", n)
		}
		openGate(gate)
		hold(sctx, t, "w3")
		settles(t, "the task that no State refers to is recorded no more", func() bool {
			return f.recordedAt("s") < 3
		})
		f.kill("w1")
		f.instead(t, "w4", "w1")
		k.has(ctx, t, "the owner is dead", g, 2, 2)
		if n := f.recordedAt("s"); n != 2 {
			t.Errorf("the submitter has %d recorded tasks, want 2", n)
		}
	})
}

// TestStateLetsTaskGo: the records of tasks that stay for a State go when that refers to them no more.
func TestStateLetsTaskGo(t *testing.T) {
	onDrawers(t, func(t *testing.T, k *drawers, g grains.Grain[drawer]) {
		f, sctx, ctx := newWill(t)
		k.filled(sctx, t, g)
		k.filled(sctx, t, g) // with another object
		settles(t, "the tasks of the first object are not recorded any more", func() bool {
			return f.recordedAt("s") == 2
		})
		if _, err := k.put.Call(ctx, g, raysys.Handle[parcel]{}).Get(ctx); err != nil {
			t.Fatal(err)
		}
		settles(t, "no task is recorded", func() bool {
			return f.recordedAt("s") == 0
		})
	})
}

// TestAdoptedFromState: the task of an object to which a State refers is taken over by a worker after its submitter's death,
// while the grain is not active, with what it needs. Its object is made again when the grain wants it, once, wherever that is
// active then.
func TestAdoptedFromState(t *testing.T) {
	onDrawers(t, func(t *testing.T, k *drawers, g grains.Grain[drawer]) {
		f, sctx, ctx := newWill(t)
		k.filled(sctx, t, g)
		f.kill("s")
		f.kill("w2") // where the grain was active
		f.kill("w1")
		f.instead(t, "w4", "w1")
		settles(t, "workers have both tasks", func() bool { return f.recordedAt("w3", "w4") == 2 })
		k.has(ctx, t, "submitter, owner and the grain's node are dead", g, 2, 2)
	})
}

// TestStateAfterRestart: the same after the end of all nodes, with the records in the store.
func TestStateAfterRestart(t *testing.T) {
	onDrawers(t, func(t *testing.T, k *drawers, g grains.Grain[drawer]) {
		f, sctx, _ := newWill(t)
		k.filled(sctx, t, g)
		f.kill("s")
		f.kill("w1")
		f.kill("w2")
		for _, n := range f.nodes { // the others know of these deaths: no lease has to end
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		f.nodes = nil
		f.place("w5", system.Worker)
		f.instead(t, "w6", "w1")
		_, ctx := f.place("d", system.Driver)
		settles(t, "workers have both tasks", func() bool { return f.recordedAt("w5", "w6") == 2 })
		k.has(ctx, t, "all nodes began anew", g, 2, 2)
	})
}

// TestPassedOnFromState: whoever is given a reference out of a State that was read from the store has the object made again
// too, also when the grain's node is dead.
func TestPassedOnFromState(t *testing.T) {
	onDrawers(t, func(t *testing.T, k *drawers, g grains.Grain[drawer]) {
		f, sctx, ctx := newWill(t)
		k.filled(sctx, t, g)
		h, err := k.pass.With(on("w2")).Call(ctx, g).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		f.kill("s")
		f.kill("w2")
		f.kill("w1")
		f.instead(t, "w4", "w1")
		p, err := h.Ref().Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.seed(); n != 4 || err != nil {
			t.Errorf("the object has %d, %v; want 4", n, err)
		}
	})
}
