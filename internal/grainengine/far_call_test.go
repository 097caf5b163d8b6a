package grainengine_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

func configOf(tb *raysys.Table) system.Config { return system.Config{Table: tb} }

var tenant = raysys.NewContextKey[string]("grains_test.tenant")

// TestFarContext: what a method sees of its caller is the same on another node: values, deadline, names and ids.
func TestFarContext(t *testing.T) {
	r := newRovers(t)
	type seen struct {
		Tenant   string
		Deadline bool
		Task     string
		Child    string
		Self     string
	}
	look := grains.Method0(r.kind, "look", func(_ *rover, ctx context.Context) (seen, error) {
		var s seen
		s.Tenant, _ = tenant.From(ctx)
		_, s.Deadline = ctx.Deadline()
		turn, _, err := core.TurnOf(ctx)
		if err != nil {
			return s, err
		}
		id, _ := grains.Self(ctx)
		s.Task, s.Child, s.Self = turn.ID().String(), raysys.Put(ctx, 1).ID().String(), id.String()
		return s, nil
	})
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx := tenant.With(a.context(), "acme")
	f := look.Call(ctx, r.kind.Get("x"))
	got, err := f.Get(ctx)
	want := seen{"acme", true, f.ID().String(), f.ID().Child(0).String(), "rover/x"}
	if err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	free, err := look.With(raysys.NoDeadline()).Call(ctx, r.kind.Get("x")).Get(ctx)
	if err != nil || free.Deadline {
		t.Error("a call without a deadline has one over there", err)
	}
}

// TestFarRefs: references in arguments and results work on the other node; On takes its place when the value is there.
func TestFarRefs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		type box struct{ R raysys.Handle[int] }
		open := grains.Method(r.kind, "open", func(_ *rover, ctx context.Context, b box) (int, error) { return b.R.Ref().Get(ctx) })
		pass := grains.Method(r.kind, "pass", func(_ *rover, _ context.Context, b box) (box, error) { return b, nil })
		a, b := r.net.add("a"), r.net.add("b")
		r.on(b)
		ctx := a.context()
		v := raysys.Put(ctx, 42)
		wants(t, ctx, open.Call(ctx, r.kind.Get("x"), box{v.Handle()}), 42)
		back, err := pass.Call(ctx, r.kind.Get("x"), box{v.Handle()}).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, ctx, back.R.Ref(), 42)
		wants(t, ctx, r.add.On(ctx, r.kind.Get("x"), raysys.Put(ctx, 5)), 5)
		wants(t, ctx, r.add.On(ctx, r.kind.Get("x"), r.add.Call(ctx, r.kind.Get("y"), 3)), 8)
		on := r.gate.Call(ctx, r.kind.Get("x"))
		<-r.entered
		late := r.add.On(ctx, r.kind.Get("x"), raysys.Put(ctx, 1))
		late.Cancel()
		nodetest.Fails(t, ctx, late, raysys.ErrCancelled)
		synctest.Wait() // the cancellation has reached the call where it waits
		close(r.leave)
		if _, err := on.Get(ctx); err != nil {
			t.Error(err)
		}
		wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 0), 8)
	})
}

// TestFarCycle: a refused cycle on the other node is one here too; over two nodes the deadline ends it.
func TestFarCycle(t *testing.T) {
	r := newRovers(t)
	var self, other grains.Act0[rover]
	call := func(key string, m *grains.Act0[rover]) func(*rover, context.Context) error {
		return func(_ *rover, ctx context.Context) error {
			_, err := m.Call(ctx, r.kind.Get(key)).Get(ctx)
			return err
		}
	}
	self = grains.Action0(r.kind, "self", call("x", &self))
	there := grains.Action0(r.kind, "there", call("y", &other))
	other = grains.Action0(r.kind, "other", call("x", &there))
	a, b := r.net.add("a"), r.net.add("b")
	r.net.choose = func(id graindir.ID, _ *fakeNode, _ []*fakeNode) *fakeNode {
		if id.Key == "y" {
			return a
		}
		return b
	}
	ctx := a.context()
	_, err := self.Call(ctx, r.kind.Get("x")).Get(ctx)
	var cycle *raysys.CycleError
	if !errors.Is(err, raysys.ErrCycle) || !errors.As(err, &cycle) || len(cycle.Chain) < 2 {
		t.Error(err)
	}
	nodetest.Fails(t, ctx, there.With(raysys.Deadline(50_000_000)).Call(ctx, r.kind.Get("x")), raysys.ErrDeadline)
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
}

// TestFarFlags: what a handle declares holds on the other node.
func TestFarFlags(t *testing.T) {
	r := newRovers(t)
	peek := grains.Method0(r.kind, "peek", func(g *rover, ctx context.Context) (int, error) { return g.n, nil }).ReadOnly()
	watch := grains.Action0(r.kind, "watch", func(_ *rover, ctx context.Context) error {
		// A read-only turn that waits lets another in.
		_, err := peek.Call(ctx, r.kind.Get("y")).Get(ctx)
		r.entered <- ctx
		if err == nil {
			_, err = r.gate.Call(ctx, r.kind.Get("z")).Get(ctx)
		}
		return err
	}).ReadOnly()
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx := a.context()
	f := watch.Call(ctx, r.kind.Get("x"))
	<-r.entered // watch
	<-r.entered // gate, which holds z
	wants(t, ctx, peek.Call(ctx, r.kind.Get("x")), 0)
	close(r.leave)
	if _, err := f.Get(ctx); err != nil {
		t.Error(err)
	}
}

// TestFarStateless: workers are local where a node hosts, and on a host's node where it does not; then calls are
// spread.
func TestFarStateless(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	k := grains.DefineIn[rover](tb, "pool", grains.StatelessWorker(2))
	where := grains.Method0(k, "where", func(_ *rover, ctx context.Context) (string, error) {
		turn, _, err := core.TurnOf(ctx)
		return string(turn.Job().Node), err
	})
	length := grains.Method(k, "length", func(_ *rover, _ context.Context, b []byte) (int, error) { return len(b), nil })
	a, d := net.add("a"), net.addAs("d", true)
	net.add("b")
	wants(t, a.context(), where.Call(a.context(), k.Get("")), "a")
	if net.count("locate") != 0 {
		t.Error("a host asks where its own workers are")
	}
	ctx := d.context()
	found := map[string]int{}
	for range 1000 {
		v, err := where.Call(ctx, k.Get("")).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found[v]++
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(found)
	}
	wants(t, ctx, length.Call(ctx, k.Get(""), make([]byte, 100_000)), 100_000)
	if len(net.places) != 0 {
		t.Error("workers are recorded in the registry")
	}
	if d.engine.Activations("pool") != 0 {
		t.Error("the driver hosts workers")
	}
}

// TestWanted: the registry learns what the kind and the call ask for.
func TestWanted(t *testing.T) {
	r := newRovers(t, grains.Placement(raysys.Spread), grains.Label("disk", "ssd"), grains.Label("zone", "1"))
	a := r.net.add("a")
	ctx := a.context()
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	wants(t, ctx, r.add.With(raysys.Placement(raysys.ByHash), raysys.Label("zone", "2"), raysys.Label("gpu", "h200")).Call(ctx, r.kind.Get("y"), 1), 1)
	x, y := r.net.wants[0], r.net.wants[1]
	if x.Entry.Name != "rover" || x.Strategy != raysys.Spread || !maps.Equal(x.Labels, map[string]string{"disk": "ssd", "zone": "1"}) || x.Stateless {
		t.Errorf("%+v", x)
	}
	if y.Strategy != raysys.ByHash || !maps.Equal(y.Labels, map[string]string{"disk": "ssd", "zone": "1", "gpu": "h200"}) {
		t.Errorf("%+v", y)
	}
}

// TestPlacementOptions: ones that cannot be meant are bad definitions.
func TestPlacementOptions(t *testing.T) {
	for name, o := range map[string]grains.Option{"Placement": grains.Placement(""), "Label": grains.Label("", "x")} {
		tb := raysys.NewTable()
		grains.DefineIn[rover](tb, "k", o)
		if err := tb.Freeze(); !errors.Is(err, raysys.ErrBadDefinition) {
			t.Error(name, err)
		}
	}
}

// TestPID: an activation's address can be looked up, and only while it is here.
func TestPID(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	g := r.kind.Get("x")
	if b.engine.PID(idOf(g)) != nil || b.engine.PID(graindir.ID{Kind: "nothing", Key: "x"}) != nil {
		t.Error("a PID of what is not active")
	}
	wants(t, a.context(), r.add.Call(a.context(), g, 1), 1)
	if pid := b.engine.PID(idOf(g)); pid == nil || a.engine.PID(idOf(g)) != nil {
		t.Error(pid)
	}
	if got := b.engine.Kinds(); !maps.Equal(got, map[string]int{"rover": 1}) {
		t.Error(got)
	}
}

// TestOverloadedRoute: calls that wait for the registry are bounded like a mailbox, and given up ones make room.
func TestOverloadedRoute(t *testing.T) {
	r := newRovers(t, grains.Mailbox(3))
	a := r.net.add("a")
	let := r.net.slowly("locate")
	defer let()
	ctx := a.context()
	var refs []raysys.Ref[int]
	for range 3 {
		refs = append(refs, r.add.Call(ctx, r.kind.Get("x"), 1))
	}
	nodetest.Fails(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), raysys.ErrOverloaded)
	refs[1].Cancel()
	refs = append(refs, r.add.Call(ctx, r.kind.Get("x"), 1))
	let()
	wants(t, ctx, refs[0], 1)
	nodetest.Fails(t, ctx, refs[1], raysys.ErrCancelled)
	wants(t, ctx, refs[2], 2)
	wants(t, ctx, refs[3], 3)
}
