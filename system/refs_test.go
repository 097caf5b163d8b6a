package system_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// parcel is an argument or result of any size that refers to others.
type parcel struct {
	Data  []uint32
	Inner []raysys.Handle[parcel]
}

const large = 100_000 // numbers of four bytes

func newParcel(seed, n int) parcel {
	p := parcel{Data: make([]uint32, n)}
	for i := range p.Data {
		p.Data[i] = uint32(seed*7919 + i)
	}
	return p
}

// seed returns what the parcel was made from, and an error when a byte is wrong.
func (p parcel) seed() (int, error) {
	if len(p.Data) == 0 {
		return 0, errors.New("the parcel is empty")
	}
	for i, v := range p.Data {
		if v != p.Data[0]+uint32(i) {
			return 0, fmt.Errorf("number %d of %d is wrong", i, len(p.Data))
		}
	}
	return int(p.Data[0] / 7919), nil
}

// weigh adds up the seeds of a parcel and of those that it refers to.
func weigh(ctx context.Context, p parcel) (int, error) {
	sum, err := p.seed()
	for _, h := range p.Inner {
		if err != nil {
			break
		}
		var in parcel
		if in, err = h.Ref().Get(ctx); err == nil {
			var n int
			n, err = weigh(ctx, in)
			sum += n
		}
	}
	return sum, err
}

type order struct{ Seed, Size, Inner int }

var (
	// pack makes a parcel, with inner ones that are objects of the node it runs on.
	pack = tasks.DefineIn(table, "pack", func(ctx context.Context, o order) (parcel, error) {
		p := newParcel(o.Seed, o.Size)
		for i := range o.Inner {
			p.Inner = append(p.Inner, raysys.Put(ctx, newParcel(o.Seed+i+1, o.Size)).Handle())
		}
		return p, nil
	})
	scale = tasks.DefineIn(table, "scale", weigh)
	both  = tasks.Define2In(table, "both", func(ctx context.Context, a, b parcel) (int, error) {
		n, err := weigh(ctx, a)
		if err != nil {
			return 0, err
		}
		m, err := weigh(ctx, b)
		return n + m, err
	})
	packWhen = tasks.DefineIn(table, "pack-when", func(ctx context.Context, o order) (parcel, error) {
		select {
		case <-packGate:
			return newParcel(o.Seed, o.Size), nil
		case <-ctx.Done():
			return parcel{}, ctx.Err()
		}
	})
	packGate = make(chan struct{})
)

// depot is a grain that keeps parcels, by value and by reference.
type depot struct {
	own  []parcel
	refs []raysys.Handle[parcel]
}

func (d *depot) Store(_ context.Context, p parcel) (int, error) {
	d.own = append(d.own, p)
	return len(d.own), nil
}

func (d *depot) Note(_ context.Context, hs []raysys.Handle[parcel]) (int, error) {
	d.refs = append(d.refs, hs...)
	return len(d.refs), nil
}

func (d *depot) Weigh(ctx context.Context) (sum int, err error) {
	for _, h := range d.refs {
		p, err := h.Ref().Get(ctx)
		if err != nil {
			return 0, err
		}
		n, err := weigh(ctx, p)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (d *depot) First(context.Context) (parcel, error) { return d.own[0], nil }

func (d *depot) Clear(context.Context) error {
	*d = depot{}
	return nil
}

var (
	depots     = grains.DefineIn[depot](table, "depot")
	depotStore = grains.Method(depots, "store", (*depot).Store)
	depotNote  = grains.Method(depots, "note", (*depot).Note)
	depotWeigh = grains.Method0(depots, "weigh", (*depot).Weigh)
	depotFirst = grains.Method0(depots, "first", (*depot).First)
	depotClear = grains.Action0(depots, "clear", (*depot).Clear)
)

// on is the option that keeps work on one node.
func on(name raysys.NodeID) raysys.Option { return raysys.Label("node", string(name)) }

// place joins a node that work can be sent to by its name.
func (f *fleet) place(name raysys.NodeID, role system.Role, change ...func(*system.Config)) (*system.Node, context.Context) {
	return f.join(name, role, append(change, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": string(name)} })...)
}

// newTrio is two workers and a driver, which are connected.
func newTrio(t testing.TB) (w1, w2, d *system.Node, ctx context.Context) {
	t.Helper()
	f := newFleet(t)
	w1, _ = f.place("w1", system.Worker)
	w2, _ = f.place("w2", system.Worker)
	d, ctx = f.place("d", system.Driver)
	meet(t, d, w1, w2)
	return w1, w2, d, ctx
}

// meet waits until each of nodes is connected to all others.
func meet(t testing.TB, nodes ...*system.Node) {
	t.Helper()
	settles(t, "the nodes are connected", func() bool {
		for _, n := range nodes {
			if system.Connected(n) < len(nodes)-1 {
				return false
			}
		}
		return true
	})
}

// settles waits until cond holds. It collects garbage meanwhile: references are given back by cleanups. Most conditions
// hold without that, so a tenth of the time goes to it at most.
func settles(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(60 * time.Second)
	for next := time.Now().Add(20 * time.Millisecond); !cond(); <-tick.C {
		begin := time.Now()
		if begin.After(end) {
			t.Fatal("not within a minute:", what)
		}
		if begin.After(next) {
			runtime.GC()
			next = time.Now().Add(10 * time.Since(begin))
		}
	}
}

// free waits until no node holds anything of another.
func free(t testing.TB, nodes ...*system.Node) {
	t.Helper()
	settles(t, "every reference is given back", func() bool {
		for _, n := range nodes {
			if e, i := system.References(n); e+i > 0 {
				return false
			}
		}
		return true
	})
}

// TestLargeEverywhere: large values as arguments and results of tasks and grain calls, and inside each other.
func TestLargeEverywhere(t *testing.T) {
	w1, w2, d, ctx := newTrio(t)
	want := func(what string, r raysys.Ref[int], n int) {
		t.Helper()
		if v, err := r.Get(ctx); v != n || err != nil {
			t.Errorf("%s: %d, %v; want %d", what, v, err, n)
		}
	}
	func() {
		far := pack.With(on("w1")).Go(ctx, order{1, large, 2})
		if p, err := far.Get(ctx); err != nil {
			t.Error(err)
		} else if n, err := weigh(ctx, p); n != 1+2+3 || err != nil {
			t.Error("here:", n, err)
		}
		want("by reference", scale.With(on("w2")).On(ctx, pack.With(on("w1")).Go(ctx, order{2, large, 1})), 2+3)
		want("back to its node", scale.With(on("w1")).On(ctx, far), 6)
		huge := newParcel(5, 20*large)
		want("a large argument", scale.With(on("w1")).Go(ctx, huge), 5)
		want("two", both.With(on("w2")).On(ctx, far, raysys.Put(ctx, huge)), 11)
		want("two by value", both.With(on("w2")).Go(ctx, huge, newParcel(4, 1)), 9)
		g := depots.Get("x")
		want("to a grain", depotStore.With(on("w2")).Call(ctx, g, huge), 1)
		want("by reference to a grain", depotStore.On(ctx, g, far), 2)
		want("noted", depotNote.Call(ctx, g, []raysys.Handle[parcel]{far.Handle(), raysys.Put(ctx, huge).Handle()}), 2)
		want("weighed", depotWeigh.Call(ctx, g), 11)
		first, err := depotFirst.Call(ctx, g).Get(ctx)
		if n, bad := first.seed(); n != 5 || err != nil || bad != nil {
			t.Error("of a grain:", n, err, bad)
		}
		if _, err := depotClear.Call(ctx, g).Get(ctx); err != nil {
			t.Error(err)
		}
	}()
	free(t, d, w1, w2)
}

// TestMiddlemanDies: a node that passed a reference on may go; the value is its owner's.
func TestMiddlemanDies(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.place("w2", system.Worker)
	m, between := f.place("m", system.Driver, withoutLineage) // else the next submitter keeps the object for 30 s
	d, ctx := f.place("d", system.Driver)
	meet(t, m, d, w1, w2)
	g := depots.Get("y")
	refs := []raysys.Handle[parcel]{
		pack.With(on("w1")).Go(between, order{3, large, 1}).Handle(),
		packWhen.With(on("w1"), raysys.Detached()).Go(between, order{5, large, 0}).Handle(),
	}
	if _, _, err := raysys.Wait(between, []raysys.Ref[parcel]{refs[0].Ref()}, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := depotNote.With(on("w2")).Call(between, g, refs[:1]).Get(between); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := m.Kill(context.Background(), errShort); err != nil {
		t.Error(err)
	}
	settles(t, "the middleman is known to be dead", func() bool { return system.Members(w1) == 3 })
	if n, err := depotWeigh.Call(ctx, g).Get(ctx); n != 3+4 || err != nil {
		t.Error(n, err)
	}
	if _, err := depotClear.Call(ctx, g).Get(ctx); err != nil {
		t.Error(err)
	}
	free(t, w1, w2)
}

// TestOwnerOfReferencesDies: what only the dead node had is lost, and the error names it; who has a copy keeps it.
func TestOwnerOfReferencesDies(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.place("w2", system.Worker)
	d, ctx := f.place("d", system.Driver, withoutLineage)
	meet(t, d, w1, w2)
	got := pack.With(on("w1")).Go(ctx, order{3, large, 0})
	left := pack.With(on("w1")).Go(ctx, order{4, large, 0})
	if p, err := got.Get(ctx); err != nil || len(p.Data) != large {
		t.Fatal(err)
	}
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{left}, 1); err != nil {
		t.Fatal(err)
	}
	if err := w1.Kill(context.Background(), errShort); err != nil {
		t.Error(err)
	}
	_, err := left.Get(ctx)
	if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "w1") || raysys.PhaseOf(left) != raysys.PhaseLost {
		t.Errorf("%v, %v", err, raysys.PhaseOf(left))
	}
	if n, err := scale.With(on("w2")).On(ctx, got).Get(ctx); n != 3 || err != nil {
		t.Error("a copy:", n, err)
	}
	if _, err := scale.With(on("w2")).On(ctx, left).Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Error(err)
	}
}

// TestReceiverDies: what a dead node held is given back.
func TestReceiverDies(t *testing.T) {
	w1, w2, d, ctx := newTrio(t)
	func() {
		refs := []raysys.Handle[parcel]{pack.With(on("w1")).Go(ctx, order{3, large, 1}).Handle(), raysys.Put(ctx, newParcel(1, large)).Handle()}
		if n, err := depotNote.With(on("w2")).Call(ctx, depots.Get("z"), refs).Get(ctx); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}()
	settles(t, "it holds both", func() bool { _, i := system.References(w2); return i >= 2 }) // a settled one with its submitter's
	if err := w2.Kill(context.Background(), errShort); err != nil {
		t.Error(err)
	}
	free(t, d, w1)
}

// TestReferencesOverABreak: frames that gave references back and were lost with their connection are made up for.
func TestReferencesOverABreak(t *testing.T) {
	f := newFleet(t)
	var lose atomic.Bool
	w, _ := f.place("w1", system.Worker)
	d, ctx := f.join("d", system.Driver, func(c *system.Config) {
		standins.Of(c.Cluster).Chaos = func(_ raysys.NodeID, _ wire.Class, k wire.Kind) link.Action {
			if lose.Load() && k == wire.KindDrop {
				return link.Drop
			}
			return link.Pass
		}
	})
	meet(t, d, w)
	kept := pack.With(on("w1")).Go(ctx, order{1, large, 0})
	for i := range 20 {
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{pack.With(on("w1")).Go(ctx, order{i, large, 0})}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{kept}, 1); err != nil {
		t.Fatal(err)
	}
	lose.Store(true)
	settles(t, "all but one are given back", func() bool { _, i := system.References(d); return i == 1 && system.Owed(d) == 0 })
	if e, _ := system.References(w); e < 10 {
		t.Fatal(e, "are held: the drops were not lost")
	}
	lose.Store(false)
	system.Break(d, "w1")
	settles(t, "one is held", func() bool { e, _ := system.References(w); return e == 1 })
	if p, err := kept.Get(ctx); err != nil {
		t.Error(err)
	} else if n, err := p.seed(); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// TestLateBorrow: until the owner has counted a receiver, the lender of the reference keeps it.
func TestLateBorrow(t *testing.T) {
	f := newFleet(t)
	var hold atomic.Bool
	hold.Store(true)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker, func(c *system.Config) {
		c.Cluster.Labels = map[string]string{"node": "w2"}
		standins.Of(c.Cluster).Chaos = func(_ raysys.NodeID, _ wire.Class, k wire.Kind) link.Action {
			if hold.Load() && k == wire.KindBorrow {
				return link.Drop
			}
			return link.Pass
		}
	})
	d, ctx := f.place("d", system.Driver)
	meet(t, d, w1, w2)
	g := depots.Get("late")
	func() {
		r := pack.With(on("w1")).Go(ctx, order{3, large, 0})
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{r}, 1); err != nil {
			t.Fatal(err)
		}
		if n, err := depotNote.With(on("w2")).Call(ctx, g, []raysys.Handle[parcel]{r.Handle()}).Get(ctx); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 10 { // longer than any pause
		runtime.GC()
		<-tick.C
	}
	if e, i := system.References(d); e != 1 || i != 1 {
		t.Errorf("the node between exports %d and holds %d", e, i)
	}
	if n, err := depotWeigh.Call(ctx, g).Get(ctx); n != 3 || err != nil {
		t.Error(n, err)
	}
	hold.Store(false)
	system.Break(w2, "w1") // the borrow was lost, and is made again
	settles(t, "the submitter lends nothing", func() bool { return system.Held(d, "w2") == 1 && system.Held(w1, "w2") == 1 })
	if e, _ := system.References(w1); e != 1 {
		t.Error("the owner counts", e)
	}
	if n, err := depotWeigh.Call(ctx, g).Get(ctx); n != 3 || err != nil {
		t.Error(n, err)
	}
}

// TestReferencesSoak: thousands of objects pass through three nodes, and none stays.
func TestReferencesSoak(t *testing.T) {
	w1, w2, d, ctx := newTrio(t)
	rounds := long.Form(5, 20)
	var before, after runtime.MemStats
	for round := range rounds {
		g := depots.Get("soak")
		var sums []raysys.Ref[int]
		var hs []raysys.Handle[parcel]
		for i := range 50 {
			a := pack.With(on("w1")).Go(ctx, order{i, 20_000, i % 3})
			b := pack.With(on("w2")).Go(ctx, order{i, 100 + i%2*20_000, 0})
			sums = append(sums, scale.With(on("w2")).On(ctx, a), both.With(on("w1")).On(ctx, a, b))
			hs = append(hs, a.Handle(), b.Handle())
		}
		sums = append(sums, depotNote.With(on("w2")).Call(ctx, g, hs), depotWeigh.Call(ctx, g))
		for i, r := range sums {
			if _, err := r.Get(ctx); err != nil {
				t.Fatal(round, i, err)
			}
		}
		if _, err := depotClear.Call(ctx, g).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			clear(sums)
			clear(hs)
			free(t, d, w1, w2)
			runtime.ReadMemStats(&before)
		}
	}
	free(t, d, w1, w2)
	settles(t, "no more memory is in use than after the second round", func() bool {
		runtime.ReadMemStats(&after)
		return after.HeapAlloc < before.HeapAlloc+8<<20
	})
}
