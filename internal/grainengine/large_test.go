package grainengine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/staterecord"
)

var bulk = strings.Repeat("x", 200_000)

// TestLargeStateRecord: the record of a State that is an object is what testdata says, lists that object, and is read by every
// later version.
func TestLargeStateRecord(t *testing.T) {
	p, ctx, g := onePurse(t)
	p.net.keeps.next = func() raysys.TaskID { return raysys.TaskID{Hi: 7, Lo: 8} }
	ends(t, ctx, p.note.Call(ctx, g, bulk))
	stored := p.net.store.record(idOf(g), "notes").Data
	if want := golden.Hex(t, "v1/state-large.hex", stored); !slices.Equal(stored, want) {
		t.Errorf("stored %x, and this version of the format is %x", stored, want)
	}
	if ids := staterecord.Retained(stored); len(ids) != 1 || ids[0] != (raysys.TaskID{Hi: 7, Lo: 8}) {
		t.Errorf("the record lists %v, not its object", ids)
	}
	if written, large := staterecord.Large(stored); !large || string(written) != (raysys.TaskID{Hi: 7, Lo: 8}).String() {
		t.Errorf("the record says %q, %v of its object", written, large)
	}
	ends(t, ctx, p.quit.Call(ctx, g))
	if had, err := p.had.Call(ctx, g).Get(ctx); err != nil || had != `0 ["`+bulk+`"] false` {
		t.Errorf("read back: %d bytes, %v", len(had), err)
	}
}

// TestLargeStateOutcomes: whoever keeps the object hears what became of the record, and a Write whose record surely was not
// stored leaves no object.
func TestLargeStateOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		fails error // of the Write
		told  error // nil: that it was stored
		left  int
	}{
		"well":    {saveWell, nil, nil, 1},
		"stored":  {saveStored, nil, nil, 1},
		"lost":    {saveLost, nil, nil, 1},
		"refused": {saveRefused, raysys.ErrOverloaded, raysys.ErrOverloaded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, ctx, g := onePurse(t)
			var told []error
			p.net.keeps.told = func(err error) { told = append(told, err) }
			p.faults(c.fault)
			_, err := p.note.Call(ctx, g, bulk).Get(ctx)
			if !errors.Is(err, c.fails) {
				t.Errorf("the Write ends with %v, want %v", err, c.fails)
			}
			if len(told) != 1 || !errors.Is(told[0], c.told) {
				t.Errorf("it was told %v, want %v once", told, c.told)
			}
			if objects, open := p.net.keeps.left(); objects != c.left || open != 0 {
				t.Errorf("%d objects are left, %d of them without an outcome; want %d", objects, open, c.left)
			}
			wants(t, ctx, p.get.Call(ctx, g), 0) // the State is read again, where the Write failed
		})
	}
}

// TestLargeStateNotKept: when no disk takes a State, the Write says so, nothing is stored, and the grain goes on with what was.
func TestLargeStateNotKept(t *testing.T) {
	p, ctx, g := onePurse(t)
	ends(t, ctx, p.note.Call(ctx, g, "a"))
	before := p.net.store.record(idOf(g), "notes")
	p.net.keeps.onKeep = func(int) error { return raysys.ErrStoreFull }
	err := nodetest.Fails(t, ctx, p.note.Call(ctx, g, bulk), raysys.ErrStoreFull)
	if !strings.Contains(err.Error(), "purse/x.notes") {
		t.Errorf("the error does not name the State: %v", err)
	}
	if now := p.net.store.record(idOf(g), "notes"); now.ETag != before.ETag {
		t.Errorf("stored: %v, and before %v", now.ETag, before.ETag)
	}
	ends(t, ctx, p.note.Call(ctx, g, "b"))
	ends(t, ctx, p.quit.Call(ctx, g))
	wants(t, ctx, p.had.Call(ctx, g), `0 ["a" "b"] false`)
}

// TestLargeStateUnreadable: a State whose object is lost is unreadable, and one whose nodes are away may be read later.
func TestLargeStateUnreadable(t *testing.T) {
	p, ctx, g := onePurse(t)
	ends(t, ctx, p.note.Call(ctx, g, bulk))
	ends(t, ctx, p.quit.Call(ctx, g))
	for _, c := range []struct{ why, want error }{{raysys.ErrObjectLost, grains.ErrUnreadable}, {raysys.ErrUnreachable, raysys.ErrUnreachable}} {
		p.net.keeps.onFetch = func() error { return c.why }
		if err := nodetest.Fails(t, ctx, p.get.Call(ctx, g), c.want); errors.Is(err, grains.ErrUnreadable) != (c.why == raysys.ErrObjectLost) {
			t.Errorf("its object fails with %v: %v", c.why, err)
		}
	}
	p.net.keeps.onFetch = nil
	wants(t, ctx, p.get.Call(ctx, g), 0)
}

// TestDurableLargeTogether: States that each fit a record, and together no commit, are one commit all the same.
func TestDurableLargeTogether(t *testing.T) {
	type shelf struct{ a, b, c, d grains.State[string] }
	tb := raysys.NewTable()
	net := newNet(t, tb)
	kind := grains.DefineIn[shelf](tb, "shelf", grains.Durable())
	fill := grains.Action(kind, "fill", func(s *shelf, _ context.Context, v string) error {
		s.a.Value, s.b.Value, s.c.Value, s.d.Value = v, v+"b", v+"c", v[:10]
		return nil
	})
	size := grains.Method0(kind, "size", func(s *shelf, _ context.Context) (int, error) {
		return len(s.a.Value) + len(s.b.Value) + len(s.c.Value) + len(s.d.Value), nil
	}).ReadOnly()
	quit := grains.Action0(kind, "quit", func(_ *shelf, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
	ctx := net.add("a").context()
	g := kind.Get("x")
	v := strings.Repeat("v", 120_000)
	ends(t, ctx, fill.Call(ctx, g, v))
	if objects, open := net.keeps.left(); objects != 2 || open != 0 {
		t.Errorf("%d of three States of 120 kB are objects, %d without an outcome; want 2, 0: one fits the commit", objects, open)
	}
	ends(t, ctx, quit.Call(ctx, g))
	wants(t, ctx, size.Call(ctx, g), 3*len(v)+2+10)
}

// TestDurableLarge: a turn of a durable grain with States that are objects is one commit; when no disk takes one of them the
// turn is not stored, gives everything back, and leaves no object.
func TestDurableLarge(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ends(t, ctx, v.both.Call(ctx, g, bulk))
	if n := v.committed(); n != 1 {
		t.Errorf("%d commits for one call", n)
	}
	if objects, open := v.net.keeps.left(); objects != 1 || open != 0 {
		t.Errorf("%d objects, %d of them without an outcome; want 1, 0", objects, open)
	}
	v.net.keeps.onKeep = func(int) error { return raysys.ErrStoreFull }
	err := nodetest.Fails(t, ctx, v.both.Call(ctx, g, bulk), raysys.ErrStoreFull)
	if !strings.Contains(err.Error(), "notes") {
		t.Errorf("the error does not name the State: %v", err)
	}
	wants(t, ctx, v.get.Call(ctx, g), 1)
	wants(t, ctx, v.add.Call(ctx, g, 5), 6)
	v.net.keeps.onKeep = nil
	v.net.store.onSave = func(graindir.ID, string) fault { return saveRefused }
	nodetest.Fails(t, ctx, v.both.Call(ctx, g, bulk), raysys.ErrUnreachable)
	v.net.store.heal()
	if objects, open := v.net.keeps.left(); objects != 1 || open != 0 {
		t.Errorf("after a commit that was refused: %d objects, %d of them without an outcome; want 1, 0", objects, open)
	}
	ends(t, ctx, v.both.Call(ctx, g, bulk))
	wants(t, ctx, v.get.Call(ctx, g), 7)
}
