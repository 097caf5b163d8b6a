package system_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
)

// rack is a grain that passes references on.
type rack struct{ refs []raysys.Handle[parcel] }

func (r *rack) Put(_ context.Context, hs []raysys.Handle[parcel]) (int, error) {
	r.refs = append(r.refs, hs...)
	return len(r.refs), nil
}

func (r *rack) Pass(ctx context.Context, to string) (int, error) {
	return rackPut.Call(ctx, racks.Get(to), r.refs).Get(ctx)
}

func (r *rack) Give(context.Context) ([]raysys.Handle[parcel], error) { return r.refs, nil }

func (r *rack) Weigh(ctx context.Context) (sum int, err error) {
	return weigh(ctx, parcel{Data: []uint32{0}, Inner: r.refs})
}

func (r *rack) Clear(context.Context) error {
	r.refs = nil
	return nil
}

var (
	racks     = grains.DefineIn[rack](table, "rack")
	rackPut   = grains.Method(racks, "put", (*rack).Put)
	rackPass  = grains.Method(racks, "pass", (*rack).Pass)
	rackGive  = grains.Method0(racks, "give", (*rack).Give)
	rackWeigh = grains.Method0(racks, "weigh", (*rack).Weigh)
	rackClear = grains.Action0(racks, "clear", (*rack).Clear)
)

// TestPair: a reference to a task's result names the node that has the bytes and the one that submitted, wherever it goes;
// both count the holder once, and both are let go with the last reference.
func TestPair(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	w2, _ := f.place("w2", system.Worker)
	w3, _ := f.place("w3", system.Worker)
	d, ctx := f.place("d", system.Driver)
	meet(t, d, w1, w2, w3)
	counts := func(what string, at1, at2, at3 int) {
		t.Helper()
		settles(t, what, func() bool {
			return system.Held(d, "w1") == at1 && system.Held(d, "w2") == at2 && system.Held(d, "w3") == at3 &&
				system.Held(w1, "w2") == at2 && system.Held(w1, "w3") == at3 &&
				system.Held(w2, "") == 0 && system.Held(w3, "") == 0
		})
	}
	must := func(n int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(n, err)
		}
	}
	for _, w := range []string{"w1", "w2", "w3"} {
		must(rackPut.With(on(raysys.NodeID(w))).Call(ctx, racks.Get("pair/"+w), nil).Get(ctx))
	}
	pass := func(from, to string) {
		t.Helper()
		must(rackPass.Call(ctx, racks.Get("pair/"+from), "pair/"+to).Get(ctx))
	}
	clearAll := func(names ...string) {
		t.Helper()
		for _, w := range names {
			if _, err := rackClear.Call(ctx, racks.Get("pair/"+w)).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	func() {
		r := pack.With(on("w1")).Go(ctx, order{3, large, 0})
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{r}, 1); err != nil {
			t.Fatal(err)
		}
		must(rackPut.Call(ctx, racks.Get("pair/w2"), []raysys.Handle[parcel]{r.Handle()}).Get(ctx))
	}()
	counts("the submitter's reference is passed on", 0, 1, 0)
	pass("w2", "w3")
	counts("a third node's", 0, 1, 1)
	pass("w3", "w1")
	counts("to the owner, which holds the submitter's future", 1, 1, 1)
	clearAll("w2", "w3")
	counts("the owner alone has references", 1, 0, 0)
	pass("w1", "w2")
	counts("the owner's reference is passed on", 1, 1, 0)
	clearAll("w1")
	counts("the owner has given up its own", 0, 1, 0)
	for _, w := range []string{"w2"} {
		if n, err := rackWeigh.Call(ctx, racks.Get("pair/"+w)).Get(ctx); n != 3 || err != nil {
			t.Error(n, err)
		}
	}
	func() {
		back, err := rackGive.Call(ctx, racks.Get("pair/w2")).Get(ctx)
		if err != nil || len(back) != 1 {
			t.Fatal(err)
		}
		counts("it has come home", 0, 1, 0)
		if e, i := system.References(d); e != 1 || i != 1 {
			t.Errorf("the submitter exports %d futures and holds %d, want its own and the owner's", e, i)
		}
		if p, err := back[0].Ref().Get(ctx); err != nil {
			t.Error(err)
		} else if n, err := p.seed(); n != 3 || err != nil {
			t.Error(n, err)
		}
	}()
	clearAll("w2")
	free(t, d, w1, w2, w3)
}

// TestPairsLaw: however references travel between the nodes, the counts of all of them add up to what all hold, once
// nothing is on its way; and nothing is left of them when they are gone.
func TestPairsLaw(t *testing.T) {
	f := newFleet(t)
	names := []string{"w1", "w2", "w3"}
	var nodes []*system.Node
	for _, w := range names {
		n, _ := f.place(raysys.NodeID(w), system.Worker)
		nodes = append(nodes, n)
	}
	d, ctx := f.place("d", system.Driver)
	nodes = append(nodes, d)
	meet(t, nodes...)
	for _, w := range names {
		if _, err := rackPut.With(on(raysys.NodeID(w))).Call(ctx, racks.Get("law/"+w), nil).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// A check waits until all is given back. The flag has its default unless the run sets it.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set(fmt.Sprint(long.Form(8, 100))); err != nil {
			t.Fatal(err)
		}
		defer checks.Value.Set(checks.DefValue)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var own []raysys.Handle[parcel]
		drawRack := func(rt *rapid.T, what string) string { return "law/" + rapid.SampledFrom(names).Draw(rt, what) }
		fatal := func(rt *rapid.T, err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"make": func(rt *rapid.T) {
				on := on(raysys.NodeID(rapid.SampledFrom(names).Draw(rt, "on")))
				size := rapid.SampledFrom([]int{10, large}).Draw(rt, "size")
				r := pack.With(on).Go(ctx, order{1, size, rapid.IntRange(0, 1).Draw(rt, "inner")})
				if rapid.Bool().Draw(rt, "settled") {
					_, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{r}, 1)
					fatal(rt, err)
				}
				own = append(own, r.Handle())
			},
			"put": func(rt *rapid.T) {
				_, err := rackPut.Call(ctx, racks.Get(drawRack(rt, "to")), own).Get(ctx)
				fatal(rt, err)
			},
			"pass": func(rt *rapid.T) {
				from, to := drawRack(rt, "from"), drawRack(rt, "to")
				if from == to {
					rt.Skip()
				}
				_, err := rackPass.Call(ctx, racks.Get(from), to).Get(ctx)
				fatal(rt, err)
			},
			"give": func(rt *rapid.T) {
				hs, err := rackGive.Call(ctx, racks.Get(drawRack(rt, "from"))).Get(ctx)
				fatal(rt, err)
				own = append(own[:0:0], hs...)
			},
			"weigh": func(rt *rapid.T) {
				_, err := rackWeigh.Call(ctx, racks.Get(drawRack(rt, "at"))).Get(ctx)
				fatal(rt, err)
			},
			"clear": func(rt *rapid.T) {
				_, err := rackClear.Call(ctx, racks.Get(drawRack(rt, "at"))).Get(ctx)
				fatal(rt, err)
			},
			"drop": func(*rapid.T) { own = nil },
		})
		settles(t, "the counts add up to what is held", func() bool {
			counts, held := 0, 0
			for _, n := range nodes {
				counts += system.Held(n, "")
				_, i := system.References(n)
				held += i
			}
			return counts == held
		})
		own = nil
		for _, w := range names {
			_, err := rackClear.Call(ctx, racks.Get("law/"+w)).Get(ctx)
			fatal(rt, err)
		}
		free(t, nodes...)
	})
}
