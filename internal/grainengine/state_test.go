package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/tally"
)

// purse is a grain with States. It does what its calls say, so that a test is a list of calls.
type purse struct {
	balance grains.State[int]
	Notes   grains.State[[]string] `raysys:"notes"`
	had     string                 // what OnActivate saw
}

func (p *purse) OnActivate(context.Context) error {
	p.had = fmt.Sprintf("%d %q %v", p.balance.Value, p.Notes.Value, p.balance.Exists())
	return nil
}

type purses struct {
	net   *fakeNet
	kind  grains.Kind[purse]
	put   grains.Func[purse, int, int]    // Value += d, written
	try   grains.Func[purse, int, string] // the same, and the error as text
	slip  grains.Act[purse, int]          // Value += d, not written
	fall  grains.Act[purse, int]          // the same, and a panic
	get   grains.Func0[purse, int]
	read  grains.Func0[purse, int]
	clear grains.Act0[purse]
	note  grains.Act[purse, string]
	had   grains.Func0[purse, string]
	tag   grains.Func0[purse, string]
	quit  grains.Act0[purse]
}

func newPurses(t testing.TB) *purses {
	tb := raysys.NewTable()
	p := &purses{net: newNet(t, tb), kind: grains.DefineIn[purse](tb, "purse")}
	p.put = grains.Method(p.kind, "put", func(g *purse, ctx context.Context, d int) (int, error) {
		g.balance.Value += d
		return g.balance.Value, g.balance.Write(ctx)
	})
	p.try = grains.Method(p.kind, "try", func(g *purse, ctx context.Context, d int) (string, error) {
		g.balance.Value += d
		return fmt.Sprint(g.balance.Write(ctx)), nil
	})
	p.slip = grains.Action(p.kind, "slip", func(g *purse, _ context.Context, d int) error { g.balance.Value += d; return nil })
	p.fall = grains.Action(p.kind, "fall", func(g *purse, _ context.Context, d int) error {
		g.balance.Value += d
		panic("fall")
	})
	p.get = grains.Method0(p.kind, "get", func(g *purse, _ context.Context) (int, error) { return g.balance.Value, nil })
	p.read = grains.Method0(p.kind, "read", func(g *purse, ctx context.Context) (int, error) {
		err := g.balance.Read(ctx)
		return g.balance.Value, err
	})
	p.clear = grains.Action0(p.kind, "clear", func(g *purse, ctx context.Context) error { return g.balance.Clear(ctx) })
	p.note = grains.Action(p.kind, "note", func(g *purse, ctx context.Context, s string) error {
		g.Notes.Value = append(g.Notes.Value, s)
		return g.Notes.Write(ctx)
	})
	p.had = grains.Method0(p.kind, "had", func(g *purse, _ context.Context) (string, error) { return g.had, nil })
	p.tag = grains.Method0(p.kind, "tag", func(g *purse, _ context.Context) (string, error) { return g.balance.ETag(), nil })
	p.quit = grains.Action0(p.kind, "quit", func(_ *purse, ctx context.Context) error { return grains.Deactivate(ctx) })
	return p
}

// onePurse is purse x on the one node of a net.
func onePurse(t testing.TB) (p *purses, ctx context.Context, g grains.Grain[purse]) {
	p = newPurses(t)
	return p, p.net.add("a").context(), p.kind.Get("x")
}

func (p *purses) on(n *fakeNode) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return n }
}

// faults makes the next Saves end so.
func (p *purses) faults(list ...fault) {
	s := p.net.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSave = func(graindir.ID, string) fault {
		if len(list) == 0 {
			return saveWell
		}
		f := list[0]
		list = list[1:]
		return f
	}
}

func ends(t testing.TB, ctx context.Context, r grains.Done) {
	t.Helper()
	if _, err := r.Get(ctx); err != nil {
		t.Error(err)
	}
}

// TestStateOutlivesActivation, node and process: it is loaded, all of it at once, before OnActivate.
func TestStateOutlivesActivation(t *testing.T) {
	p := newPurses(t)
	a, b, c := p.net.add("a"), p.net.add("b"), p.net.add("c")
	p.on(b)
	ctx := a.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.had.Call(ctx, g), `0 [] false`)
	wants(t, ctx, p.tag.Call(ctx, g), "")
	wants(t, ctx, p.put.Call(ctx, g, 5), 5)
	ends(t, ctx, p.note.Call(ctx, g, "rent"))
	tag, err := p.tag.Call(ctx, g).Get(ctx)
	if err != nil || tag == "" {
		t.Error(tag, err)
	}
	ends(t, ctx, p.quit.Call(ctx, g))
	nodetest.Eventually(t, "it leaves b", func() bool { return p.net.placeOf(idOf(g)).IsZero() })
	p.on(c)
	p.net.store.mu.Lock()
	loads := p.net.store.loads
	p.net.store.mu.Unlock()
	wants(t, ctx, p.had.Call(ctx, g), `5 ["rent"] true`)
	wants(t, ctx, p.tag.Call(ctx, g), tag)
	if got := p.net.store.loads - loads; got != 1 {
		t.Error(got, "loads")
	}
	p.on(b)
	c.kill()
	ctx = b.context()
	wants(t, ctx, p.put.Call(ctx, g, 1), 6)
	if r := p.net.store.record(idOf(g), "notes"); !r.Exists {
		t.Error("the tag does not name the record")
	}
	if r := p.net.store.record(idOf(g), "balance"); !r.Exists {
		t.Error("the field does not name the record")
	}
}

// TestStateInOneProcess: without a cluster tokens are zero and the rest is the same.
func TestStateInOneProcess(t *testing.T) {
	p := newPurses(t)
	n := p.net.addAlone("alone")
	ctx := n.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 5), 5)
	ends(t, ctx, p.quit.Call(ctx, g))
	nodetest.Eventually(t, "it goes", func() bool { return n.engine.Activations("purse") == 0 })
	wants(t, ctx, p.put.Call(ctx, g, 1), 6)
	p.faults(saveRefused)
	nodetest.Fails(t, ctx, p.put.Call(ctx, g, 1), raysys.ErrOverloaded)
	wants(t, ctx, p.get.Call(ctx, g), 6)
}

// TestStateWithoutStore: a node that was given none says so.
func TestStateWithoutStore(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[purse](tb, "purse")
	get := grains.Method0(k, "get", func(g *purse, _ context.Context) (int, error) { return g.balance.Value, nil })
	n := newNet(t, tb).addBare("bare")
	err := nodetest.Fails(t, n.context(), get.Call(n.context(), k.Get("x")), grains.ErrActivation)
	if !strings.Contains(err.Error(), "no store") {
		t.Error(err)
	}
}

// TestWriteFaults: what a Write answers, and what the next turn sees, for every way in which a Save ends.
func TestWriteFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []fault
		err    error // of the Write; nil for success
		stored int   // after it, beginning with 1 and adding 10
	}{
		{"well", nil, nil, 11},
		{"lost once", []fault{saveLost}, nil, 11},
		{"stored, unknown", []fault{saveStored}, nil, 11},
		{"delayed", []fault{saveDelayed}, nil, 11},
		{"lost, then stored", []fault{saveLost, saveStored}, nil, 11},
		{"delayed, then stored", []fault{saveDelayed, saveStored}, nil, 11},
		{"unknown for ever", []fault{saveLost, saveLost, saveLost, saveLost, saveLost}, raysys.ErrOutcomeUnknown, 1},
		{"refused", []fault{saveRefused}, raysys.ErrOverloaded, 1},
		{"unknown, then refused", []fault{saveLost, saveRefused, saveLost, saveLost, saveLost}, raysys.ErrOutcomeUnknown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ctx, g := onePurse(t)
			wants(t, ctx, p.put.Call(ctx, g, 1), 1)
			p.faults(c.faults...)
			v, err := p.put.Call(ctx, g, 10).Get(ctx)
			if !errors.Is(err, c.err) || err == nil && v != 11 {
				t.Errorf("Write: %d, %v; want %v", v, err, c.err)
			}
			p.faults()
			p.net.store.arrive()
			wants(t, ctx, p.get.Call(ctx, g), c.stored)
			wants(t, ctx, p.put.Call(ctx, g, 100), c.stored+100)
		})
	}
}

// TestETagConflict: a Write over a version that was not read is refused, and Read mends it.
func TestETagConflict(t *testing.T) {
	p, ctx, g := onePurse(t)
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	other := func() {
		s := p.net.store
		s.mu.Lock()
		defer s.mu.Unlock()
		k := storeKey{idOf(g), "balance"}
		r := s.records[k]
		s.seq++
		r.ETag = graindir.ETag{Epoch: 1, Seq: s.seq}
		s.records[k] = r
	}
	other()
	nodetest.Fails(t, ctx, p.put.Call(ctx, g, 10), grains.ErrETag)
	wants(t, ctx, p.put.Call(ctx, g, 10), 11) // the turn after it began with what is stored
	other()
	wants(t, ctx, p.read.Call(ctx, g), 11)
	wants(t, ctx, p.put.Call(ctx, g, 1), 12)
}

// TestStaleWrite: a commit that is refused since the grain is elsewhere ends the activation; its caller never hears of
// a success, also when the method swallows the error, and the next call goes to the new place (rules C19, C20).
func TestStaleWrite(t *testing.T) {
	p := newPurses(t)
	a, b, c := p.net.add("a"), p.net.add("b"), p.net.add("c")
	p.on(b)
	ctx, old := a.context(), b.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	p.net.put(idOf(g), c)
	nodetest.Fails(t, old, p.try.Call(old, g, 10), raysys.ErrMoved)
	nodetest.Eventually(t, "the stale one ends", func() bool { return b.engine.Activations("purse") == 0 })
	wants(t, old, p.put.Call(old, g, 100), 101)
	if c.engine.Activations("purse") != 1 {
		t.Error("it is not on c")
	}
	// The caller on a still believes in b; its call is sent on.
	wants(t, ctx, p.put.Call(ctx, g, 1), 102)
}

// TestStaleCallsFollow: calls that wait behind the turn that found out follow the grain.
func TestStaleCallsFollow(t *testing.T) {
	p := newPurses(t)
	a, b, c := p.net.add("a"), p.net.add("b"), p.net.add("c")
	p.on(b)
	ctx, old := a.context(), b.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	let := p.net.slowly("save")
	first := p.put.Call(old, g, 10)
	nodetest.Eventually(t, "it saves", func() bool { return p.net.pending() == 1 })
	near, far := p.put.Call(old, g, 100), p.put.Call(ctx, g, 1000)
	p.net.put(idOf(g), c)
	let()
	nodetest.Fails(t, old, first, raysys.ErrMoved)
	x, err1 := near.Get(old)
	y, err2 := far.Get(ctx)
	if err1 != nil || err2 != nil || max(x, y) != 1101 {
		t.Error(x, err1, y, err2)
	}
}

// TestLeaseFence: a reply leaves under a lease or with a commit of its own turn, and with nothing else (rule C20).
func TestLeaseFence(t *testing.T) {
	p := newPurses(t)
	a := p.net.addAlone("a") // so that only the lease stands between
	ctx := a.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	wants(t, ctx, p.get.Call(ctx, g), 1)
	a.suspend(true)
	nodetest.Fails(t, ctx, p.get.Call(ctx, g), raysys.ErrSuspended)
	nodetest.Fails(t, ctx, p.read.Call(ctx, g), raysys.ErrSuspended)
	wants(t, ctx, p.put.Call(ctx, g, 1), 2) // the commit was the last act
	nodetest.Fails(t, ctx, p.get.Call(ctx, g), raysys.ErrSuspended)
	a.suspend(false)
	wants(t, ctx, p.get.Call(ctx, g), 2)
}

// TestFenceAfterRead: a commit fences only what comes to no further look at the store.
func TestFenceAfterRead(t *testing.T) {
	p := newPurses(t)
	both := grains.Method0(p.kind, "both", func(g *purse, ctx context.Context) (int, error) {
		if err := g.balance.Write(ctx); err != nil {
			return 0, err
		}
		err := g.balance.Read(ctx)
		return g.balance.Value, err
	})
	a := p.net.addAlone("a")
	ctx := a.context()
	a.suspend(true)
	nodetest.Fails(t, ctx, both.Call(ctx, p.kind.Get("x")), raysys.ErrSuspended)
	a.suspend(false)
	wants(t, ctx, both.Call(ctx, p.kind.Get("x")), 0)
}

// TestLoadFails: an activation without its State fails, and the next call tries again; one that is refused since the
// grain is elsewhere sends its calls on.
func TestLoadFails(t *testing.T) {
	p := newPurses(t)
	a, b, c := p.net.add("a"), p.net.add("b"), p.net.add("c")
	p.on(b)
	ctx := a.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	ends(t, ctx, p.quit.Call(ctx, g))
	nodetest.Eventually(t, "it goes", func() bool { return p.net.placeOf(idOf(g)).IsZero() })
	s := p.net.store
	s.mu.Lock()
	s.onLoad = func(graindir.ID) error { return raysys.ErrNotDelivered }
	s.mu.Unlock()
	err := nodetest.Fails(t, ctx, p.get.Call(ctx, g), grains.ErrActivation)
	if !errors.Is(err, raysys.ErrNotDelivered) {
		t.Error(err)
	}
	failed := map[string]uint64{}
	for _, r := range grainengine.Functions(b.engine) {
		failed[r.Name] = r.Outcomes[tally.Error]
	}
	if failed["purse.OnActivate"] != 1 || failed["purse.get"] != 1 {
		t.Errorf("errors that are counted: %v", failed)
	}
	s.mu.Lock()
	moved := false
	s.onLoad = func(id graindir.ID) error {
		if !moved {
			moved = true
			p.net.put(id, c)
		}
		return nil
	}
	s.mu.Unlock()
	wants(t, ctx, p.get.Call(ctx, g), 1)
	if c.engine.Activations("purse") != 1 {
		t.Error("it is not on c")
	}
}

// TestUnwritten: a change that is not written is memory; a panic takes it back.
func TestUnwritten(t *testing.T) {
	p, ctx, g := onePurse(t)
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	ends(t, ctx, p.slip.Call(ctx, g, 10))
	wants(t, ctx, p.get.Call(ctx, g), 11)
	nodetest.Fails(t, ctx, p.fall.Call(ctx, g, 100), raysys.ErrPanic)
	wants(t, ctx, p.get.Call(ctx, g), 1)
	ends(t, ctx, p.slip.Call(ctx, g, 10))
	ends(t, ctx, p.quit.Call(ctx, g))
	nodetest.Eventually(t, "it goes", func() bool { return p.net.placeOf(idOf(g)).IsZero() })
	wants(t, ctx, p.get.Call(ctx, g), 1)
}

// TestClear removes what is stored.
func TestClear(t *testing.T) {
	p, ctx, g := onePurse(t)
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	p.faults(saveStored)
	ends(t, ctx, p.clear.Call(ctx, g))
	wants(t, ctx, p.get.Call(ctx, g), 0)
	if r := p.net.store.record(idOf(g), "balance"); r.Exists {
		t.Error(r)
	}
	wants(t, ctx, p.put.Call(ctx, g, 2), 2)
	p.faults(saveRefused)
	nodetest.Fails(t, ctx, p.clear.Call(ctx, g), raysys.ErrOverloaded)
	wants(t, ctx, p.get.Call(ctx, g), 2)
}

// TestTooLarge: a State is bounded, and the error says by what.
func TestTooLarge(t *testing.T) {
	p, ctx, g := onePurse(t)
	ends(t, ctx, p.note.Call(ctx, g, strings.Repeat("x", grains.MaxState-100)))
	err := nodetest.Fails(t, ctx, p.note.Call(ctx, g, strings.Repeat("y", 200)), raysys.ErrTooLarge)
	if !strings.Contains(err.Error(), "purse/x.notes") || !strings.Contains(err.Error(), fmt.Sprint(grains.MaxState)) {
		t.Error(err)
	}
	ends(t, ctx, p.note.Call(ctx, g, "z"))
	ends(t, ctx, p.quit.Call(ctx, g))
	had, err := p.had.Call(ctx, g).Get(ctx)
	if err != nil || !strings.HasSuffix(had, `x" "z"] false`) {
		t.Error(had[max(0, len(had)-30):], err)
	}
}

// TestStateOutside: the verbs belong to the grain's turns.
func TestStateOutside(t *testing.T) {
	p := newPurses(t)
	a := p.net.add("a")
	ctx := a.context()
	var loose grains.State[int]
	for name, verb := range map[string]func(context.Context) error{"read": loose.Read, "write": loose.Write, "clear": loose.Clear} {
		if err := verb(ctx); !errors.Is(err, raysys.ErrNoRuntime) || !strings.Contains(err.Error(), name) {
			t.Error(name, err)
		}
	}
	if loose.Exists() || loose.ETag() != "" {
		t.Error("a loose State exists")
	}
	var leaked *purse
	leak := grains.Action0(p.kind, "leak", func(g *purse, _ context.Context) error { leaked = g; return nil })
	use := grains.Action0(p.kind, "use", func(_ *purse, ctx context.Context) error { return leaked.balance.Write(ctx) })
	ends(t, ctx, leak.Call(ctx, p.kind.Get("x")))
	for _, c := range []context.Context{ctx, context.Background()} {
		if err := leaked.balance.Write(c); !errors.Is(err, raysys.ErrNoRuntime) {
			t.Error(err)
		}
	}
	nodetest.Fails(t, ctx, use.Call(ctx, p.kind.Get("y")), raysys.ErrNoRuntime)
}

// TestMovedWhileOpen: when an attempt's outcome was lost and the next is refused since the grain moved, nobody can say
// that it did not count.
func TestMovedWhileOpen(t *testing.T) {
	p := newPurses(t)
	a, b := p.net.add("a"), p.net.add("b")
	p.on(a)
	ctx := a.context()
	g := p.kind.Get("x")
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	s := p.net.store
	s.mu.Lock()
	s.onSave = func(graindir.ID, string) fault { return saveStored }
	s.onLoad = func(id graindir.ID) error {
		if p.net.placeOf(id).Node == "a" {
			p.net.put(id, b)
		}
		return nil
	}
	s.mu.Unlock()
	nodetest.Fails(t, ctx, p.try.Call(ctx, g, 10), raysys.ErrOutcomeUnknown)
	s.heal()
	wants(t, ctx, p.get.Call(ctx, g), 11)
}

// TestLateSaveIsNotThisOne: a Save that was given up is stored while the outcome of the next one is open. What is read
// back differs from the version that was known, but it is not what was written: the Write answers ErrETag, and no
// success.
func TestLateSaveIsNotThisOne(t *testing.T) {
	p, ctx, g := onePurse(t)
	wants(t, ctx, p.put.Call(ctx, g, 1), 1)
	p.faults(saveDelayed, saveDelayed, saveDelayed, saveDelayed, saveDelayed)
	nodetest.Fails(t, ctx, p.put.Call(ctx, g, 10), raysys.ErrOutcomeUnknown)
	s := p.net.store
	s.mu.Lock()
	s.onSave = func(graindir.ID, string) fault { // the store's lock is held
		for _, f := range s.late {
			f()
		}
		s.late = nil
		return saveLost
	}
	s.mu.Unlock()
	v, err := p.put.Call(ctx, g, 100).Get(ctx)
	if !errors.Is(err, grains.ErrETag) {
		t.Errorf("a Write whose outcome was open found the bytes of an earlier one stored, and answered %d, %v: want ErrETag", v, err)
	}
	s.heal()
	wants(t, ctx, p.get.Call(ctx, g), 11)
}
