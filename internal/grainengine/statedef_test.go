package grainengine_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
)

type (
	twoNames struct {
		A grains.State[int] `raysys:"x"`
		B grains.State[int] `raysys:"x"`
	}
	noName struct {
		A grains.State[int] `raysys:"-"`
	}

	withChan struct{ A grains.State[chan int] }
	huge     struct{ A grains.State[[65 << 20]byte] }
	behind   struct{ A *grains.State[int] }
	several  struct{ A []grains.State[int] }
	inside   struct{ A struct{ S grains.State[int] } }
	base     struct{ Count grains.State[int] }
	embedded struct {
		base
		grains.State[string]
	}
)

// TestStateDefinitions: what cannot be meant is a bad definition, with its field.
func TestStateDefinitions(t *testing.T) {
	const field = "field A: a State or a Map must be a field of the grain's struct itself"
	for _, c := range []struct {
		want   string
		define func(*raysys.Table)
	}{
		{`two States or Maps have the name "x"`, func(tb *raysys.Table) { grains.DefineIn[twoNames](tb, "k") }},
		{`needs a name`, func(tb *raysys.Table) { grains.DefineIn[noName](tb, "k") }},
		{`a channel cannot travel`, func(tb *raysys.Table) { grains.DefineIn[withChan](tb, "k") }},
		{`has 68157440 bytes`, func(tb *raysys.Table) { grains.DefineIn[huge](tb, "k") }},
		{field, func(tb *raysys.Table) { grains.DefineIn[behind](tb, "k") }},
		{field, func(tb *raysys.Table) { grains.DefineIn[several](tb, "k") }},
		{field, func(tb *raysys.Table) { grains.DefineIn[inside](tb, "k") }},
	} {
		tb := raysys.NewTable()
		c.define(tb)
		err := tb.Freeze()
		if !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\ndoes not say %q", err, c.want)
		}
	}
}

// TestEmbeddedStates: States of embedded structs count, under their field's name.
func TestEmbeddedStates(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	k := grains.DefineIn[embedded](tb, "k")
	set := grains.Action0(k, "set", func(g *embedded, ctx context.Context) error {
		g.Count.Value, g.State.Value = 3, "three"
		return errors.Join(g.Count.Write(ctx), g.State.Write(ctx))
	})
	if err := tb.Freeze(); err != nil {
		t.Fatal(err)
	}
	a := net.add("a")
	ends(t, a.context(), set.Call(a.context(), k.Get("x")))
	for _, name := range []string{"Count", "State"} {
		if !net.store.record(idOf(k.Get("x")), name).Exists {
			t.Error(name, "was not stored")
		}
	}
}

type (
	accountV1 struct {
		Owner string
		Cents int
		Tags  []string
	}
	// accountV2 lost Tags and got Limit.
	accountV2 struct {
		Cents int
		Limit float64
		Owner string
	}
	accountBad struct{ Cents string }

	ledgerV1  struct{ Account grains.State[accountV1] }
	ledgerV2  struct{ Account grains.State[accountV2] }
	ledgerBad struct{ Account grains.State[accountBad] }
)

// TestStateRecord: what this version stores is what testdata says, and every later version reads it; a type that has
// gained and lost fields too, and one that has changed a field's type says what is wrong (rule C4).
func TestStateRecord(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	k1 := grains.DefineIn[ledgerV1](tb, "ledger")
	set := grains.Action(k1, "set", func(g *ledgerV1, ctx context.Context, v accountV1) error {
		g.Account.Value = v
		return g.Account.Write(ctx)
	})
	get1 := grains.Method0(k1, "get", func(g *ledgerV1, _ context.Context) (accountV1, error) { return g.Account.Value, nil })
	k2 := grains.DefineIn[ledgerV2](tb, "ledger2")
	get2 := grains.Method0(k2, "get", func(g *ledgerV2, _ context.Context) (accountV2, error) { return g.Account.Value, nil })
	k3 := grains.DefineIn[ledgerBad](tb, "ledger3")
	get3 := grains.Method0(k3, "get", func(g *ledgerBad, _ context.Context) (string, error) { return g.Account.Value.Cents, nil })
	ctx := net.add("a").context()
	ends(t, ctx, set.Call(ctx, k1.Get("x"), accountV1{"ann", 1234, []string{"a", "b"}}))
	stored := net.store.record(idOf(k1.Get("x")), "Account").Data
	want := golden.Hex(t, "v1/state-account.hex", stored)
	if hex.EncodeToString(stored) != hex.EncodeToString(want) {
		t.Errorf("stored %x, and this version of the format is %x", stored, want)
	}
	give := func(kind string, data []byte) {
		net.store.mu.Lock()
		net.store.records[storeKey{graindir.ID{Kind: kind, Key: "old"}, "Account"}] = graindir.Record{Data: data, Exists: true, ETag: graindir.ETag{Seq: 1}}
		net.store.mu.Unlock()
	}
	give("ledger", want)
	give("ledger2", want)
	give("ledger3", want)
	if v, err := get1.Call(ctx, k1.Get("old")).Get(ctx); err != nil || v.Owner != "ann" || v.Cents != 1234 || len(v.Tags) != 2 {
		t.Error(v, err)
	}
	if v, err := get2.Call(ctx, k2.Get("old")).Get(ctx); err != nil || v != (accountV2{1234, 0, "ann"}) {
		t.Error(v, err)
	}
	err := nodetest.Fails(t, ctx, get3.Call(ctx, k3.Get("old")), grains.ErrActivation)
	if !strings.Contains(err.Error(), "another version") || !strings.Contains(err.Error(), "ledger3/old.Account") {
		t.Error(err)
	}
	for _, bad := range [][]byte{{}, {1}, append([]byte{2}, want[1:]...), want[:len(want)-1], append(append([]byte(nil), want...), 0)} {
		key := hex.EncodeToString(bad)
		net.store.mu.Lock()
		net.store.records[storeKey{idOf(k1.Get(key)), "Account"}] = graindir.Record{Data: bad, Exists: true}
		net.store.mu.Unlock()
		nodetest.Fails(t, ctx, get1.Call(ctx, k1.Get(key)), grains.ErrActivation)
	}
}
