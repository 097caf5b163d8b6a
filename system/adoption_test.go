package system_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// holder is a grain that holds references to numbers and parcels.
type holder struct {
	numbers []raysys.Handle[int]
	parcels []raysys.Handle[parcel]
}

func (h *holder) Hold(_ context.Context, list []raysys.Handle[int]) (int, error) {
	h.numbers = list
	return len(h.numbers), nil
}

func (h *holder) Store(_ context.Context, list []raysys.Handle[parcel]) (int, error) {
	h.parcels = list
	return len(h.parcels), nil
}

// Wait waits until the parcels are there, and does not read them.
func (h *holder) Wait(ctx context.Context) (int, error) {
	var list []raysys.Ref[parcel]
	for _, p := range h.parcels {
		list = append(list, p.Ref())
	}
	ready, _, err := raysys.Wait(ctx, list, len(list))
	return len(ready), err
}

func (h *holder) Sum(ctx context.Context) (sum int, err error) {
	for _, n := range h.numbers {
		v, err := n.Ref().Get(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	n, err := weigh(ctx, parcel{Data: []uint32{0}, Inner: h.parcels})
	return sum + n, err
}

var (
	holders     = grains.DefineIn[holder](table, "holder")
	holderHold  = grains.Method(holders, "hold", (*holder).Hold).Idempotent()
	holderStore = grains.Method(holders, "store", (*holder).Store)
	holderWait  = grains.Method0(holders, "wait", (*holder).Wait)
	holderSum   = grains.Method0(holders, "sum", (*holder).Sum)

	drawn atomic.Int64
	// draw gives another number each time, once its gate is open.
	draw = tasks.DefineIn(table, "draw", func(ctx context.Context, gate string) (int, error) {
		select {
		case <-gateOf(gate):
			return int(drawn.Add(1)), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	plus = tasks.Define2In(table, "plus", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	// repack makes a parcel of the next number.
	repack = tasks.DefineIn(table, "repack", func(_ context.Context, p parcel) (parcel, error) {
		n, err := p.seed()
		return newParcel(n+1, large), err
	})
	// packLater makes a small parcel once its gate is open.
	packLater = tasks.DefineIn(table, "packLater", func(ctx context.Context, gate string) (parcel, error) {
		select {
		case <-gateOf(gate):
			return newParcel(int(drawn.Add(1)), 3), nil
		case <-ctx.Done():
			return parcel{}, ctx.Err()
		}
	})
	// submits has its child known to a grain, and returns what comes of the child once its gate is open.
	submits = tasks.DefineIn(table, "submits", func(ctx context.Context, gate string) (int, error) {
		h := draw.With(on("w3")).Go(ctx, gate+" of the child").Handle()
		if _, err := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{h}).Get(ctx); err != nil {
			return 0, err
		}
		select {
		case <-gateOf(gate):
			return h.Ref().Get(ctx)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})

	gates   = map[string]chan struct{}{}
	gatesMu sync.Mutex // guards gates
)

// gateOf returns the gate that openGate opens, which is another in each test.
func gateOf(name string) chan struct{} {
	gatesMu.Lock()
	defer gatesMu.Unlock()
	g := gates[name]
	if g == nil {
		g = make(chan struct{})
		gates[name] = g
		if name == "open" {
			close(g)
		}
	}
	return g
}

func newGate() string { return fmt.Sprint("gate ", drawn.Add(1)) }

func openGate(name string) { close(gateOf(name)) }

// newWill is a cluster with three workers, a driver s whose work others shall take over, and a driver d that stays.
func newWill(t *testing.T, more ...func(*system.Config)) (f *fleet, sctx, ctx context.Context) {
	t.Helper()
	f = newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.place("w2", system.Worker)
	w3, _ := f.place("w3", system.Worker)
	s, sctx := f.place("s", system.Driver, more...)
	d, ctx := f.place("d", system.Driver)
	meet(t, s, d, w1, w2, w3)
	return f, sctx, ctx
}

// node finds a node of the cluster.
func (f *fleet) node(name raysys.NodeID) *system.Node {
	for _, n := range f.nodes {
		if n.Name() == name {
			return n
		}
	}
	return nil
}

// kill kills a node, and waits until d knows that.
// kill kills nodes at once: none of them hears of the end of another.
func (f *fleet) kill(names ...raysys.NodeID) {
	f.t.Helper()
	var all sync.WaitGroup
	for _, name := range names {
		n := f.node(name)
		all.Go(func() {
			if err := n.Kill(context.Background(), errShort); err != nil {
				f.t.Error(err)
			}
		})
	}
	all.Wait()
	for _, name := range names {
		settles(f.t, "the node is known to be dead", func() bool {
			_, known := system.Known(f.node("d"), name)
			return !known
		})
	}
}

func hold(ctx context.Context, t *testing.T, at raysys.NodeID, list ...raysys.Handle[int]) {
	t.Helper()
	if n, err := holderHold.With(on(at)).Call(ctx, holders.Get(string(at)), list).Get(ctx); err != nil {
		t.Fatal(n, err)
	}
}

func summed(ctx context.Context, t *testing.T, at raysys.NodeID) int {
	t.Helper()
	n, err := holderSum.Call(ctx, holders.Get(string(at))).Get(ctx)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return n
}

// TestAdopted: a node that holds a reference to a task whose submitter died becomes the submitter, and the others find it.
func TestAdopted(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	pending := draw.With(on("w1")).Go(sctx, gate)
	after := plus.With(on("w1")).On(sctx, pending, raysys.Put(sctx, 1000))
	settled := draw.With(on("w1")).Go(sctx, "open")
	was, err := settled.Get(sctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []raysys.NodeID{"w2", "w3"} {
		hold(sctx, t, at, pending.Handle(), after.Handle(), settled.Handle())
	}
	f.kill("s")
	openGate(gate)
	a, b := summed(ctx, t, "w2"), summed(ctx, t, "w3")
	if n := (a - 1000 - was) / 2; a != b || n <= was || a != 1000+2*n+was {
		t.Errorf("w2 has %d, w3 has %d; both want the same n, the same n and 1000, and %d", a, b, was)
	}
}

// TestAdoptedOutcome: an outcome that one node was told is that of all, whichever submitters die.
func TestAdoptedOutcome(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	h := draw.With(on("w1")).Go(sctx, gate).Handle()
	hold(sctx, t, "w2", h)
	hold(sctx, t, "w3", h)
	openGate(gate)
	told := summed(ctx, t, "w2")
	f.kill("s")
	if n := summed(ctx, t, "w3"); n != told {
		t.Errorf("w3 has %d, w2 was told %d", n, told)
	}
}

// TestAdopterDies: a node that has become the submitter may die too.
func TestAdopterDies(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	h := draw.With(on("w1")).Go(sctx, gate).Handle()
	hold(sctx, t, "w2", h)
	hold(sctx, t, "w3", h)
	f.kill("s")
	settles(t, "one node has the task", func() bool { return system.Recorded(f.node("w2"))+system.Recorded(f.node("w3")) == 1 })
	adopter, other := raysys.NodeID("w2"), raysys.NodeID("w3")
	if system.Recorded(f.node("w2")) == 0 {
		adopter, other = other, adopter
	}
	f.kill(adopter)
	openGate(gate)
	if n := summed(ctx, t, other); n == 0 {
		t.Errorf("%s has nothing", other)
	}
}

// TestAdoptedObject: an object whose owner and whose task's submitter have died is made again by a node that holds the
// reference, with what it was made of.
func TestAdoptedObject(t *testing.T) {
	f, sctx, ctx := newWill(t)
	r := repack.With(on("w1")).On(sctx, pack.With(on("w1")).Go(sctx, order{3, large, 0}))
	if _, _, err := raysys.Wait(sctx, []raysys.Ref[parcel]{r}, 1); err != nil {
		t.Fatal(err)
	}
	for _, at := range []raysys.NodeID{"w2", "w3"} {
		if n, err := holderStore.With(on(at)).Call(sctx, holders.Get(string(at)), []raysys.Handle[parcel]{r.Handle()}).Get(sctx); err != nil {
			t.Fatal(n, err)
		}
	}
	f.kill("s")
	f.kill("w1")
	f.place("w1", system.Worker)
	for _, at := range []raysys.NodeID{"w2", "w3"} {
		if n := summed(ctx, t, at); n != 4 {
			t.Errorf("%s has %d, want 4", at, n)
		}
	}
}

// TestRecordsGo: the record of a task goes when nothing refers to the task any more.
func TestRecordsGo(t *testing.T) {
	f, sctx, ctx := newWill(t)
	func() {
		gate := newGate()
		h := draw.With(on("w1")).Go(sctx, gate).Handle()
		hold(sctx, t, "w2", h)
		if n := system.Recorded(f.node("s")); n != 1 {
			t.Errorf("%d tasks are recorded, want 1", n)
		}
		openGate(gate)
		summed(ctx, t, "w2")
	}()
	hold(ctx, t, "w2")
	settles(t, "no task is recorded", func() bool {
		return system.Recorded(f.node("s")) == 0
	})
}

// TestJoined: a task that a turn submits again in its next attempt is the one that other nodes know.
func TestJoined(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	spare, _ := f.join("spare", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
	meet(t, f.nodes...)
	r := submits.With(on("w1")).Go(sctx, gate)
	settles(t, "the child is recorded", func() bool { return system.Recorded(f.node("w1"))+system.Recorded(spare) == 1 })
	openGate(gate + " of the child")
	told := summed(ctx, t, "w2")
	if system.Recorded(spare) == 1 {
		f.kill("spare")
	} else {
		f.kill("w1")
	}
	openGate(gate)
	if n, err := r.Get(sctx); n != told || err != nil {
		t.Errorf("the next attempt has %d of its child, %v; another node was told %d", n, err, told)
	}
}

// inner reads what the parcel with the name refers to.
func inner(ctx context.Context, t *testing.T, name string) raysys.Ref[parcel] {
	t.Helper()
	p, err := raysys.Lookup[parcel](ctx, name).Get(ctx)
	if err != nil || len(p.Inner) != 1 {
		t.Fatal(len(p.Inner), err)
	}
	return p.Inner[0].Ref()
}

// TestAdoptedFromName: a task to which an object with a name refers is known to whoever looks the object up, and outlives its
// submitter with them.
func TestAdoptedFromName(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	p := newParcel(1, large)
	p.Inner = []raysys.Handle[parcel]{packLater.With(on("w1")).Go(sctx, gate).Handle()}
	if _, err := raysys.Put(sctx, p, raysys.Named(gate)).Get(sctx); err != nil {
		t.Fatal(err)
	}
	in := inner(ctx, t, gate)
	f.kill("s")
	openGate(gate)
	got, err := in.Get(ctx)
	if err == nil {
		_, err = got.seed()
	}
	if err != nil {
		t.Errorf("the task that a named object refers to: %v", err)
	}
}

// TestAdoptedFromDisk: the same of an object whose value was not in memory when a reference to it left.
func TestAdoptedFromDisk(t *testing.T) {
	f, sctx, ctx := newWill(t, func(c *system.Config) {
		c.Objects = system.ObjectConfig{Memory: 3 << 20, Disk: 1 << 30, NoSharing: true}
	})
	gate := newGate()
	p := newParcel(1, large)
	p.Inner = []raysys.Handle[parcel]{packLater.With(on("w1")).Go(sctx, gate).Handle()}
	put := raysys.Put(sctx, p)
	var others []raysys.Ref[parcel]
	settles(t, "the value is on disk alone", func() bool {
		others = append(others, raysys.Put(sctx, newParcel(2, large)))
		return core.FutureOf(put.Link).Absent()
	})
	if n, err := holderStore.With(on("w2")).Call(sctx, holders.Get("w2"), []raysys.Handle[parcel]{put.Handle()}).Get(sctx); err != nil {
		t.Fatal(n, err)
	}
	if n := system.Recorded(f.node("s")); n != 1 {
		t.Errorf("%d tasks are recorded, want the one that the object refers to", n)
	}
	openGate(gate)
	if n := summed(ctx, t, "w2"); n <= 1 {
		t.Errorf("w2 has %d", n)
	}
	runtime.KeepAlive(others)
}
