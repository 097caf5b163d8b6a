package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
)

// cart is a durable grain with nothing but a Map.
type cart struct{ lines grains.Map[string, int] }

// change is what a call leaves in a cart.
type cartChange struct {
	Set    map[string]int
	Delete []string
	Fail   bool
	Panic  bool
}

func (c *cart) all() map[string]int { return maps.Collect(c.lines.All()) }

type carts struct {
	net   *fakeNet
	kind  grains.Kind[cart]
	runs  *atomic.Int64
	apply grains.Func[cart, cartChange, int] // returns the sum
	all   grains.Func0[cart, map[string]int]
	spoil grains.Act0[cart] // sets an entry, and is ReadOnly
}

func newCarts(t testing.TB) *carts {
	tb := raysys.NewTable()
	c := &carts{net: newNet(t, tb), runs: &atomic.Int64{}}
	c.kind = grains.DefineIn[cart](tb, "cart", grains.Durable())
	c.apply = grains.Method(c.kind, "apply", func(g *cart, _ context.Context, d cartChange) (sum int, _ error) {
		c.runs.Add(1)
		for k, v := range d.Set {
			had, _ := g.lines.Get(k)
			g.lines.Set(k, had+v)
		}
		for _, k := range d.Delete {
			g.lines.Delete(k)
		}
		if d.Panic {
			panic("by test")
		}
		if d.Fail {
			return 0, errTorn
		}
		for _, v := range g.lines.All() {
			sum += v
		}
		return sum, nil
	})
	c.all = grains.Method0(c.kind, "all", func(g *cart, _ context.Context) (map[string]int, error) { return g.all(), nil }).ReadOnly()
	c.spoil = grains.Action0(c.kind, "spoil", func(g *cart, _ context.Context) error { g.lines.Set("a", 1); return nil }).ReadOnly()
	return c
}

// stored is how many records of entries a grain has.
func (c *carts) stored(key string) (n int) {
	c.net.store.mu.Lock()
	defer c.net.store.mu.Unlock()
	for name := range c.net.store.sides[idOf(c.kind.Get(key))] {
		if name[0] == graindir.SideEntries {
			n++
		}
	}
	return n
}

func (c *carts) has(t *testing.T, ctx context.Context, key string, want map[string]int) {
	t.Helper()
	got, err := c.all.Call(ctx, c.kind.Get(key)).Get(ctx)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestMapTurn: what a turn leaves in a Map is stored with its reply, entry by entry; an error and a panic take it back,
// and the next activation has what is stored.
func TestMapTurn(t *testing.T) {
	c := newCarts(t)
	a, b := c.net.add("a"), c.net.add("b")
	ctx := a.context()
	g := c.kind.Get("x")
	c.net.put(idOf(g), b)
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1, "b": 2, "": 3}}), 6)
	nodetest.Fails(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 10, "c": 1}, Delete: []string{"b"}, Fail: true}), errTorn)
	nodetest.Fails(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 10}, Delete: []string{""}, Panic: true}), raysys.ErrPanic)
	c.has(t, ctx, "x", map[string]int{"a": 1, "b": 2, "": 3})
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 10}, Delete: []string{"b", "no"}}), 14)
	if n := c.stored("x"); n != 2 {
		t.Errorf("%d entries are stored, want 2", n)
	}
	c.net.put(idOf(g), a) // the activation on b does not know
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"d": 4}}), 18)
	c.has(t, ctx, "x", map[string]int{"a": 11, "": 3, "d": 4})
}

// TestMapOnlyWhatDiffers: a turn that leaves all entries as they were stores its reply alone.
func TestMapOnlyWhatDiffers(t *testing.T) {
	c := newCarts(t)
	ctx := c.net.add("a").context()
	g := c.kind.Get("x")
	var sizes []int
	c.net.store.onCommit = func(m graindir.Commit) { sizes = append(sizes, len(m.Sides)) }
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1, "b": 1}}), 2)
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 0}}), 2)
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"c": 1}, Delete: []string{"c"}}), 2)
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"b": 1}}), 3)
	if fmt.Sprint(sizes) != "[2 0 0 1]" {
		t.Errorf("entries by commits: %v", sizes)
	}
}

// TestMapLastTurnCounts: one commit of several turns has each entry once, as the last of them left it.
func TestMapLastTurnCounts(t *testing.T) {
	c := newCarts(t)
	a, b := c.net.add("a"), c.net.add("b")
	ctx := a.context()
	g := c.kind.Get("x")
	c.net.put(idOf(g), b)
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"gone": 1}}), 1)
	let := c.net.slowly("commit")
	first := c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1}})
	nodetest.Eventually(t, "it commits", func() bool { return c.net.pending() == 1 })
	sides := -1
	c.net.store.mu.Lock()
	c.net.store.onCommit = func(m graindir.Commit) { sides = len(m.Sides) }
	c.net.store.mu.Unlock()
	last := []raysys.Ref[int]{
		c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1, "b": 1}}),
		c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1}, Delete: []string{"b"}}),
		c.apply.Call(ctx, g, cartChange{Set: map[string]int{"b": 5}, Delete: []string{"gone"}}),
	}
	nodetest.Eventually(t, "all turns run", func() bool { return c.runs.Load() == 5 })
	c.apply.Call(ctx, g, cartChange{})
	nodetest.Eventually(t, "all turns are over", func() bool { return c.runs.Load() == 6 })
	let()
	wants(t, ctx, first, 2)
	for i, want := range []int{4, 4, 8} {
		wants(t, ctx, last[i], want)
	}
	if sides != 3 {
		t.Errorf("the commit has %d entries, want a, b and the one that goes", sides)
	}
	c.net.put(idOf(g), a)
	c.has(t, ctx, "x", map[string]int{"a": 3, "b": 5})
}

// TestMapCommitRefused: entries of turns that do not count go with them, and each call counts once.
func TestMapCommitRefused(t *testing.T) {
	for _, how := range []fault{saveLost, saveStored, saveDelayed, saveRefused} {
		c := newCarts(t)
		ctx := c.net.add("a").context()
		g := c.kind.Get("x")
		wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1, "b": 1}}), 2)
		var fails atomic.Int32
		fails.Store(1)
		c.net.store.mu.Lock()
		c.net.store.onSave = func(graindir.ID, string) fault {
			if fails.Add(-1) == 0 {
				return how
			}
			return saveWell
		}
		c.net.store.mu.Unlock()
		second := c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 10}, Delete: []string{"b"}})
		want := map[string]int{"a": 12}
		if how == saveRefused {
			nodetest.Fails(t, ctx, second, raysys.ErrUnreachable)
			want = map[string]int{"a": 2, "b": 1}
		} else {
			wants(t, ctx, second, 11)
		}
		c.net.store.arrive()
		if _, err := c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1}}).Get(ctx); err != nil {
			t.Error(err)
		}
		c.has(t, ctx, "x", want)
	}
}

// TestMapReadOnly: a ReadOnly method that sets an entry panics and says so, and so does what is no turn.
func TestMapReadOnly(t *testing.T) {
	c := newCarts(t)
	var leak *cart
	keep := grains.Action0(c.kind, "keep", func(g *cart, _ context.Context) error { leak = g; g.lines.Set("kept", 1); return nil })
	ctx := c.net.add("a").context()
	g := c.kind.Get("x")
	err := nodetest.Fails(t, ctx, c.spoil.Call(ctx, g), raysys.ErrPanic)
	if !strings.Contains(err.Error(), `Set of map "lines": the method is ReadOnly`) {
		t.Error(err)
	}
	c.has(t, ctx, "x", map[string]int{})
	ends(t, ctx, keep.Call(ctx, g))
	c.has(t, ctx, "x", map[string]int{"kept": 1}) // by a ReadOnly method, so that what comes while it ends changes nothing either
	nodetest.Eventually(t, "a change outside of a turn panics and says so", func() (said bool) {
		defer func() { said = strings.Contains(fmt.Sprint(recover()), "no turn of the grain is in progress") }()
		leak.lines.Delete("kept")
		return false
	})
	c.has(t, ctx, "x", map[string]int{"kept": 1})
}

// TestMapLeaseFence: a grain with nothing but a Map answers under a lease, or with a commit (rule C20).
func TestMapLeaseFence(t *testing.T) {
	c := newCarts(t)
	a := c.net.addAlone("a") // so that only the lease stands between
	ctx := a.context()
	g := c.kind.Get("x")
	wants(t, ctx, c.apply.Call(ctx, g, cartChange{Set: map[string]int{"a": 1}}), 1)
	c.has(t, ctx, "x", map[string]int{"a": 1})
	a.suspend(true)
	nodetest.Fails(t, ctx, c.all.Call(ctx, g), raysys.ErrSuspended)
	a.suspend(false)
	c.has(t, ctx, "x", map[string]int{"a": 1})
}

// cartHooks is a durable grain whose hooks change its Map, beside a State.
type cartHooks struct {
	count grains.State[int]
	log   grains.Map[int, string] `raysys:"history"`
}

func (h *cartHooks) OnActivate(context.Context) error {
	h.count.Value++
	h.log.Set(h.count.Value, "begins")
	return nil
}

func (h *cartHooks) OnDeactivate(context.Context) error {
	h.log.Set(-h.count.Value, "ends")
	return nil
}

// TestMapInHooks: hooks are transactions over Maps too.
func TestMapInHooks(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	kind := grains.DefineIn[cartHooks](tb, "hooks", grains.Durable())
	all := grains.Method0(kind, "all", func(g *cartHooks, _ context.Context) (map[int]string, error) { return maps.Collect(g.log.All()), nil }).ReadOnly()
	quit := grains.Action0(kind, "quit", func(_ *cartHooks, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
	ctx := net.add("a").context()
	g := kind.Get("x")
	for range 2 {
		ends(t, ctx, quit.Call(ctx, g))
	}
	got, err := all.Call(ctx, g).Get(ctx)
	want := map[int]string{1: "begins", -1: "ends", 2: "begins", -2: "ends", 3: "begins"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestMapTooLarge: a turn that changes more than a commit takes fails and is taken back.
func TestMapTooLarge(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	type bag struct {
		items grains.Map[string, string]
		label grains.State[string]
	}
	kind := grains.DefineIn[bag](tb, "bag", grains.Durable())
	fill := grains.Method(kind, "fill", func(g *bag, _ context.Context, sizes []int) (int, error) {
		for i, size := range sizes {
			g.items.Set(fmt.Sprint(i), strings.Repeat("x", size))
		}
		return g.items.Len(), nil
	})
	label := grains.Method(kind, "label", func(g *bag, _ context.Context, n int) (int, error) {
		g.label.Value = strings.Repeat("l", n)
		g.items.Set("labelled", strings.Repeat("x", n))
		return g.items.Len(), nil
	})
	ctx := net.add("a").context()
	g := kind.Get("x")
	wants(t, ctx, fill.Call(ctx, g, []int{60_000, 60_000}), 2)
	err := nodetest.Fails(t, ctx, fill.Call(ctx, g, []int{1, 60_001, 60_002, 60_003}), raysys.ErrTooLarge)
	if !strings.Contains(err.Error(), "4 entries of Maps") {
		t.Error(err)
	}
	nodetest.Fails(t, ctx, fill.Call(ctx, g, []int{1, 1, 70_000}), raysys.ErrTooLarge)
	wants(t, ctx, label.Call(ctx, g, 60_000), 3) // both fit
	wants(t, ctx, fill.Call(ctx, g, []int{60_000}), 3)
}

// TestMapDefinitions: what cannot be meant is a bad definition, with its field.
func TestMapDefinitions(t *testing.T) {
	type (
		plain struct{ A grains.Map[string, int] }
		both  struct {
			A grains.State[int]       `raysys:"x"`
			B grains.Map[string, int] `raysys:"x"`
		}
		refs struct {
			A grains.Map[int, raysys.Ref[int]]
		}
		chans  struct{ A grains.Map[int, chan int] }
		large  struct{ A grains.Map[int, [70_000]byte] }
		noName struct {
			A grains.Map[string, int] `raysys:"-"`
		}
		behind struct{ A *grains.Map[string, int] }
		inside struct {
			A struct{ M grains.Map[string, int] }
		}
		base struct {
			Lines grains.Map[string, int]
			Count grains.State[int]
		}
		fine struct {
			base
			grains.Map[uint8, string]
		}
	)
	durable := grains.Durable()
	const field = "field A: a State or a Map must be a field of the grain's struct itself"
	for _, c := range []struct {
		want   string
		define func(*raysys.Table)
	}{
		{"needs the option Durable", func(tb *raysys.Table) { grains.DefineIn[plain](tb, "k") }},
		{`two States or Maps have the name "x"`, func(tb *raysys.Table) { grains.DefineIn[both](tb, "k", durable) }},
		{`map "A": its values, raysys.Ref[int], may hold references`, func(tb *raysys.Table) { grains.DefineIn[refs](tb, "k", durable) }},
		{`a channel cannot travel`, func(tb *raysys.Table) { grains.DefineIn[chans](tb, "k", durable) }},
		{"a value has at most 65536", func(tb *raysys.Table) { grains.DefineIn[large](tb, "k", durable) }},
		{"a Map needs a name", func(tb *raysys.Table) { grains.DefineIn[noName](tb, "k", durable) }},
		{field, func(tb *raysys.Table) { grains.DefineIn[behind](tb, "k", durable) }},
		{field, func(tb *raysys.Table) { grains.DefineIn[inside](tb, "k", durable) }},
		{"", func(tb *raysys.Table) { grains.DefineIn[fine](tb, "k", durable) }},
	} {
		tb := raysys.NewTable()
		c.define(tb)
		err := tb.Freeze()
		if c.want == "" && err == nil {
			continue
		}
		if c.want == "" || !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\ndoes not say %q", err, c.want)
		}
	}
}
