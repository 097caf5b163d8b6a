package system_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	crates atomic.Int64
	// crate makes a large parcel of the next number once its gate is open.
	crate = tasks.DefineIn(table, "crate", func(ctx context.Context, gate string) (parcel, error) {
		select {
		case <-gateOf(gate):
			return newParcel(int(crates.Add(1)), large), nil
		case <-ctx.Done():
			return parcel{}, ctx.Err()
		}
	})
	// stamped is crate for which an account is paid: it must not be made twice.
	stamped = tasks.DefineIn(table, "stamped", func(ctx context.Context, gate string) (parcel, error) {
		select {
		case <-gateOf(gate):
		case <-ctx.Done():
			return parcel{}, ctx.Err()
		}
		if _, err := deposit.Call(ctx, accounts.Get(gate), 1).Get(ctx); err != nil {
			return parcel{}, err
		}
		return newParcel(int(crates.Add(1)), large), nil
	})
	ordered atomic.Pointer[core.Future] // of the last crate that a task has ordered
	// orders has a crate known to a grain, and returns what comes of it once its own gate is open.
	orders = tasks.DefineIn(table, "orders", func(ctx context.Context, gate string) (int, error) {
		r := crate.With(on("w3")).Go(ctx, gate+" of the child")
		ordered.Store(core.FutureOf(r.Link))
		if _, err := holderStore.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[parcel]{r.Handle()}).Get(ctx); err != nil {
			return 0, err
		}
		select {
		case <-gateOf(gate):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		p, err := r.Get(ctx)
		if err != nil {
			return 0, err
		}
		return p.seed()
	})
)

// weighing is a crate that is weighed once the gate is open.
type weighing struct {
	Crate raysys.Ref[parcel]
	Gate  string
}

var (
	scales = tasks.DefineIn(table, "scales", func(ctx context.Context, w weighing) (int, error) {
		select {
		case <-gateOf(w.Gate):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		p, err := w.Crate.Get(ctx)
		if err != nil {
			return 0, err
		}
		return p.seed()
	})
	// weighs has a crate known to a grain, and, once its own gate is open, a task that weighs it too.
	weighs = tasks.DefineIn(table, "weighs", func(ctx context.Context, gate string) (int, error) {
		r := crate.With(on("w3")).Go(ctx, gate+" of the child")
		if _, err := holderStore.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[parcel]{r.Handle()}).Get(ctx); err != nil {
			return 0, err
		}
		ordered.Store(core.FutureOf(r.Link))
		select {
		case <-gateOf(gate):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		w := scales.With(on("w3")).Go(ctx, weighing{r, gate + " to weigh"})
		if _, err := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{w.Handle()}).Get(ctx); err != nil {
			return 0, err
		}
		return w.Get(ctx)
	})
)

// owner is the node that has the object of c, a task of n, by its record.
func owner(t *testing.T, n *system.Node, c *core.Future) raysys.NodeID {
	t.Helper()
	rec, err := system.TaskRecord(n, c)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Object.Owner.Node
}

// crated has a crate made at w1 for s, and waits until its record says where it is. The nodes hold references that left before.
func crated(sctx context.Context, t *testing.T, f *fleet, at ...raysys.NodeID) (r raysys.Ref[parcel], seed int) {
	t.Helper()
	return cratedBy(sctx, t, f, crate, "s", "w1", at...)
}

// cratedBy is crated for a submitter whose context is sctx, with the crate made by a task at maker.
func cratedBy(
	sctx context.Context, t *testing.T, f *fleet, make tasks.Task[string, parcel], submitter, maker raysys.NodeID, at ...raysys.NodeID,
) (r raysys.Ref[parcel], seed int) {
	t.Helper()
	gate := newGate()
	r = make.With(on(maker)).Go(sctx, gate)
	for _, k := range append(at[:1:1], at...) { // the first may get it before it is recorded, after 1 s
		if n, err := holderStore.With(on(k)).Call(sctx, holders.Get(string(k)), []raysys.Handle[parcel]{r.Handle()}).Get(sctx); err != nil {
			t.Fatal(n, err)
		}
		settles(t, "the task is recorded", func() bool { return f.recordedAt(submitter) == 1 })
	}
	openGate(gate)
	settles(t, "the record says where the object is", func() bool {
		return owner(t, f.node(submitter), core.FutureOf(r.Link)) == maker
	})
	return r, int(crates.Load())
}

// TestAdoptedCopy: an object whose submitter has died is not made again while a node has it, also where the reference had left
// before there was an object.
func TestAdoptedCopy(t *testing.T) {
	t.Run("the owner lives", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := crated(sctx, t, f, "w2", "w3")
		f.kill("s")
		settles(t, "the owner counts the submitter no more", func() bool { return system.Held(f.node("w1"), "s") == 0 })
		for _, at := range []raysys.NodeID{"w2", "w3"} {
			if n := summed(ctx, t, at); n != seed {
				t.Errorf("%s has crate %d, want %d, which w1 has", at, n, seed)
			}
		}
	})
	t.Run("the owner adopts it", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := crated(sctx, t, f, "w1")
		f.kill("s")
		settles(t, "w1 has the task", func() bool { return system.Recorded(f.node("w1")) == 1 })
		if n := summed(ctx, t, "w1"); n != seed {
			t.Errorf("w1 has crate %d, want %d, its own", n, seed)
		}
	})
	t.Run("the owner adopts it, and its file is damaged", func(t *testing.T) {
		dir := t.TempDir()
		f, sctx, ctx := newWill(t)
		x, xctx := f.place("x", system.Worker, func(c *system.Config) { c.Objects = system.ObjectConfig{Memory: 3 << 20, Spill: dir} })
		meet(t, f.nodes...)
		_, seed := cratedBy(sctx, t, f, crate, "s", "x", "x")
		var more []raysys.Ref[[]byte]
		for i := range 4 {
			more = append(more, raysys.Put(xctx, fill(1<<20, byte(i))))
		}
		damage(t, dir, 1)
		f.kill("s")
		settles(t, "x has the task", func() bool { return system.Recorded(x) == 1 })
		if n := summed(ctx, t, "x"); n <= seed {
			t.Errorf("x has crate %d, want a new one after %d", n, seed)
		}
		runtime.KeepAlive(more)
	})
	t.Run("the owner is dead", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		r, seed := crated(sctx, t, f, "w2")
		if n, err := holderStore.With(on("w3")).Call(sctx, holders.Get("w3"), []raysys.Handle[parcel]{r.Handle()}).Get(sctx); err != nil {
			t.Fatal(n, err)
		}
		if n := summed(sctx, t, "w3"); n != seed {
			t.Fatalf("w3 has crate %d, want %d", n, seed)
		}
		f.kill("s")
		f.kill("w1")
		if n := summed(ctx, t, "w2"); n != seed {
			t.Errorf("w2 has crate %d, want %d, of which w3 has a copy", n, seed)
		}
	})
	t.Run("the owner dies after the adoption", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := crated(sctx, t, f, "w2", "w3")
		f.kill("s")
		settles(t, "a node has the task", func() bool { return f.recordedAt("w2", "w3") == 1 })
		f.kill("w1")
		f.place("w1", system.Worker)
		a, b := summed(ctx, t, "w2"), summed(ctx, t, "w3")
		if a != b || a <= seed {
			t.Errorf("w2 has crate %d, w3 has %d; want the same new one after %d", a, b, seed)
		}
	})
	t.Run("the owner was the submitter", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, xctx := f.place("x", system.Worker)
		meet(t, f.nodes...)
		_, seed := cratedBy(xctx, t, f, crate, "x", "x", "w1", "w2", "w3")
		if n := summed(sctx, t, "w3"); n != seed {
			t.Fatalf("w3 has crate %d, want %d", n, seed)
		}
		f.kill("x")
		for _, at := range []raysys.NodeID{"w1", "w2"} { // at least one of them asks the next submitter
			if n := summed(ctx, t, at); n != seed {
				t.Errorf("%s has crate %d, want %d, of which w3 has a copy", at, n, seed)
			}
		}
	})
	t.Run("the owner was the submitter, and no other node has it", func(t *testing.T) {
		f, _, ctx := newWill(t)
		_, xctx := f.place("x", system.Worker)
		meet(t, f.nodes...)
		_, seed := cratedBy(xctx, t, f, crate, "x", "x", "w1", "w2")
		if n, err := holderWait.Call(ctx, holders.Get("w1")).Get(ctx); n != 1 || err != nil { // w1 knows that it is an object, and w2 does not
			t.Fatal(n, err)
		}
		f.kill("x")
		f.place("x", system.Worker)
		a, b := summed(ctx, t, "w1"), summed(ctx, t, "w2")
		if a != b || a <= seed {
			t.Errorf("w1 has crate %d, w2 has %d; want the same new one after %d", a, b, seed)
		}
	})
	t.Run("no node has it", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := crated(sctx, t, f, "w2")
		f.kill("w1")
		f.kill("s")
		f.place("w1", system.Worker)
		if n := summed(ctx, t, "w2"); n <= seed {
			t.Errorf("w2 has crate %d, want a new one after %d", n, seed)
		}
	})
}

// TestAdoptedOnce: an object whose task had effects is not lost while a node has it, also where the submitter has died; it is never made
// again.
func TestAdoptedOnce(t *testing.T) {
	t.Run("the owner lives", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := cratedBy(sctx, t, f, stamped, "s", "w1", "w2", "w3")
		f.kill("s")
		for _, at := range []raysys.NodeID{"w2", "w3"} {
			if n := summed(ctx, t, at); n != seed {
				t.Errorf("%s has crate %d, want %d, which w1 has", at, n, seed)
			}
		}
		f.kill("w1")
		f.place("w1", system.Worker)
		if n := summed(ctx, t, "w2"); n != seed {
			t.Errorf("w2 has crate %d, want %d", n, seed)
		}
	})
	t.Run("no node has it", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		_, seed := cratedBy(sctx, t, f, stamped, "s", "w1", "w2", "w3")
		f.kill("w1")
		f.kill("s")
		f.place("w1", system.Worker)
		for _, at := range []raysys.NodeID{"w2", "w3"} {
			n, err := holderSum.Call(ctx, holders.Get(string(at))).Get(ctx)
			if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "neither ReadOnly nor Idempotent") {
				t.Errorf("%s: %d, %v; want ErrObjectLost, with why", at, n, err)
			}
		}
		if n := int(crates.Load()); n != seed {
			t.Errorf("%d crates were made, want %d", n, seed)
		}
	})
	t.Run("it is an input", func(t *testing.T) {
		f, sctx, ctx := newWill(t)
		gate := newGate()
		openGate(gate)
		r := stamped.With(on("w1")).Go(sctx, gate)
		if _, _, err := raysys.Wait(sctx, []raysys.Ref[parcel]{r}, 1); err != nil {
			t.Fatal(err)
		}
		seed := int(crates.Load())
		w := scales.With(on("w2")).Go(sctx, weighing{r, gate + " to weigh"})
		hold(sctx, t, "w3", w.Handle())
		settles(t, "the task that weighs is recorded", func() bool { return f.recordedAt("s") == 1 })
		settles(t, "it is at w2, which has the crate from w1", func() bool { return system.Held(f.node("w1"), "w2") > 0 })
		f.kill("s")
		openGate(gate + " to weigh")
		if n := summed(ctx, t, "w3"); n != seed {
			t.Errorf("w3 has weighed crate %d, want %d, which w1 has", n, seed)
		}
	})
	for _, next := range []raysys.NodeID{"w3", "w1"} { // the owner may be the next submitter
		t.Run("it is an input of a task that waits, which "+string(next)+" adopts", func(t *testing.T) {
			f, sctx, ctx := newWill(t)
			gate := newGate()
			openGate(gate)
			openGate(gate + " to weigh")
			r := stamped.With(on("w1")).Go(sctx, gate)
			if _, _, err := raysys.Wait(sctx, []raysys.Ref[parcel]{r}, 1); err != nil {
				t.Fatal(err)
			}
			seed := int(crates.Load())
			w := scales.With(on("w4"), raysys.WaitForResources()).Go(sctx, weighing{r, gate + " to weigh"})
			hold(sctx, t, next, w.Handle())
			settles(t, "the task that weighs is recorded", func() bool { return f.recordedAt("s") == 1 })
			f.kill("s")
			settles(t, "the owner counts the submitter no more", func() bool { return system.Held(f.node("w1"), "s") == 0 })
			f.place("w4", system.Worker)
			if n := summed(ctx, t, next); n != seed {
				t.Errorf("%s has weighed crate %d, want %d, which w1 has", next, n, seed)
			}
		})
	}
}

// TestJoinedObject: a parent's next attempt has the object that a child of the last attempt has computed.
func TestJoinedObject(t *testing.T) {
	f, sctx, _ := newWill(t)
	gate := newGate()
	spare, _ := f.join("spare", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
	meet(t, f.nodes...)
	r := orders.With(on("w1")).Go(sctx, gate)
	settles(t, "the child is recorded", func() bool { return system.Recorded(f.node("w1"))+system.Recorded(spare) == 1 })
	parent := raysys.NodeID("w1")
	if system.Recorded(spare) == 1 {
		parent = "spare"
	}
	openGate(gate + " of the child")
	settles(t, "the record of the child says where the object is", func() bool { return owner(t, f.node(parent), ordered.Load()) == "w3" })
	seed := int(crates.Load())
	f.kill(parent)
	openGate(gate)
	if n, err := r.Get(sctx); n != seed || err != nil {
		t.Errorf("the next attempt has crate %d, %v, want %d, which w3 has", n, err, seed)
	}
}

// TestJoinedInput: the recipe of a task names an input whose submitter is another node by now, which had it from the parent's last attempt.
func TestJoinedInput(t *testing.T) {
	f, sctx, _ := newWill(t)
	gate := newGate()
	recorded := func(at raysys.NodeID) {
		t.Helper()
		settles(t, string(at)+" has one recorded task", func() bool { return system.Recorded(f.node(at)) == 1 })
	}
	spare := func(name raysys.NodeID) { // takes the parent's next attempt
		f.join(name, system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
		meet(t, f.node("w2"), f.node("w3"), f.node("s"), f.node("d"), f.node(name))
	}
	openGate(gate + " of the child")
	ordered.Store(nil)
	r := weighs.With(on("w1"), raysys.WaitForResources()).Go(sctx, gate)
	settles(t, "the grain has the crate, and its record says where that is", func() bool {
		c := ordered.Load()
		return c != nil && owner(t, f.node("w1"), c) == "w3"
	})
	recorded("w1")
	f.kill("w1")
	recorded("w2") // the crate's task
	spare("second")
	openGate(gate)
	recorded("second") // the task that weighs alone
	spare("third")
	f.kill("second")
	openGate(gate + " to weigh")
	if n, err := r.Get(sctx); n == 0 || err != nil {
		t.Errorf("the third attempt has crate %d, %v", n, err)
	}
}
