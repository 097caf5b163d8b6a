package grains_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// Note is a grain that remembers what it was told.
type Note struct{ lines []string }

func (n *Note) Append(_ context.Context, s string) (int, error) {
	n.lines = append(n.lines, s)
	return len(n.lines), nil
}
func (n *Note) Lines(context.Context) ([]string, error) { return n.lines, nil }
func (n *Note) Add(_ context.Context, s string) error   { n.lines = append(n.lines, s); return nil }
func (n *Note) Clear(context.Context) error             { n.lines = nil; return nil }
func (n *Note) Bad(context.Context) error               { return errNote }

// Count returns how often each grain is named.
func (n *Note) Count(_ context.Context, gs []ref) (s []string, err error) {
	m := map[ref]int{}
	for _, g := range gs {
		m[g]++
	}
	for g, n := range m {
		s = append(s, fmt.Sprint(g, " ", n))
	}
	return s, nil
}

type ref = grains.Grain[Note]

var errNote = errors.New("torn")

// notes are the handles of every form.
var notes = newNotes(raysys.NewTable())

type noteHandles struct {
	table *raysys.Table
	kind  grains.Kind[Note]
	push  grains.Func[Note, string, int]
	lines grains.Func0[Note, []string]
	add   grains.Act[Note, string]
	clear grains.Act0[Note]
	bad   grains.Act0[Note]
	twin  grains.Func[Note, ref, ref]
	count grains.Func[Note, []ref, []string]
}

func newNotes(tb *raysys.Table) noteHandles {
	k := grains.DefineIn[Note](tb, "note")
	return noteHandles{
		table: tb, kind: k,
		push:  grains.Method(k, "push", (*Note).Append),
		lines: grains.Method0(k, "lines", (*Note).Lines),
		add:   grains.Action(k, "add", (*Note).Add),
		clear: grains.Action0(k, "clear", (*Note).Clear),
		bad:   grains.Action0(k, "bad", (*Note).Bad),
		twin:  grains.Method(k, "twin", func(_ *Note, _ context.Context, g ref) (ref, error) { return k.Get(g.ID().Key + "2"), nil }),
		count: grains.Method(k, "count", (*Note).Count),
	}
}

func TestEveryFormOfHandle(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	a := notes.kind.Get("a")
	nodetest.Want(t, ctx, notes.push.Call(ctx, a, "call"), 1)
	nodetest.Want(t, ctx, notes.push.On(ctx, a, raysys.Ready("on")), 2)
	for _, err := range []error{
		notes.push.Tell(ctx, a, "tell"), notes.add.Tell(ctx, a, "action told"),
		raysys.GetAll(ctx, []grains.Done{notes.add.Call(ctx, a, "action"), notes.add.On(ctx, a, raysys.Ready("action on"))})[1].Err,
	} {
		if err != nil {
			t.Error(err)
		}
	}
	got, err := notes.lines.Call(ctx, a).Get(ctx)
	if d := cmp.Diff([]string{"call", "on", "tell", "action told", "action", "action on"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := notes.clear.Call(ctx, a).Get(ctx); err != nil {
		t.Error(err)
	}
	if err := errors.Join(notes.clear.Tell(ctx, a), notes.lines.Tell(ctx, a)); err != nil {
		t.Error(err)
	}
	nodetest.Want(t, ctx, notes.push.Call(ctx, a, "after clear"), 1)

	var te *raysys.TaskError
	if err := nodetest.Fails(t, ctx, notes.bad.Call(ctx, a), errNote); !errors.As(err, &te) {
		t.Fatalf("%v is no TaskError", err)
	}
	if te.Function != "note/a.bad" || te.Attempt != 1 || te.Node == "" || te.Task.IsZero() || te.Stack != nil {
		t.Errorf("%+v", te)
	}
}

// TestKeysInMessages: a key that does not print is quoted in errors, where a client's could else write a line of its own.
func TestKeysInMessages(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	for key, want := range map[string]string{
		"a b/ü":                         "note/a b/ü.bad",
		"\x1b[2J\nerror: x":             `note/"\x1b[2J\nerror: x".bad`,
		"bad \xff":                      `note/"bad \xff".bad`,
		"\n" + strings.Repeat("k", 200): `note/"\n` + strings.Repeat("k", 127) + `"... (201 bytes).bad`,
	} {
		var te *raysys.TaskError
		if err := nodetest.Fails(t, ctx, notes.bad.Call(ctx, notes.kind.Get(key)), errNote); !errors.As(err, &te) || te.Function != want {
			t.Errorf("%q: %v, want %s", key, err, want)
		}
	}
}

func TestEach(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	var gs []ref
	for i := range 20 {
		gs = append(gs, notes.kind.Get(fmt.Sprint(i)))
	}
	for range 2 {
		for _, r := range notes.add.Each(ctx, gs, "x") {
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	for _, r := range notes.clear.Each(ctx, gs[:5]) {
		if _, err := r.Get(ctx); err != nil {
			t.Error(err)
		}
	}
	for i, r := range notes.push.Each(ctx, gs, "y") {
		want := 3
		if i < 5 {
			want = 1
		}
		nodetest.Want(t, ctx, r, want)
	}
	for i, r := range notes.lines.Each(ctx, gs) {
		if l, err := r.Get(ctx); err != nil || l[len(l)-1] != "y" {
			t.Error(i, l, err)
		}
	}
}

func TestGrainsAsValues(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	a := notes.kind.Get("a")
	nodetest.Want(t, ctx, notes.twin.Call(ctx, a, notes.kind.Get("x")), notes.kind.Get("x2"))
	got, err := notes.count.Call(ctx, a, []ref{a, notes.kind.Get("a")}).Get(ctx)
	if d := cmp.Diff([]string{"note/a 2"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, g := range []ref{a, {}, notes.kind.Get(""), notes.kind.Get("a/b$c\x00é")} {
		b, err := g.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back ref
		if err := back.UnmarshalBinary(b); err != nil || back != g {
			t.Errorf("%v became %v, %v", g, back, err)
		}
		for i := range b { // no prefix is a reference, and none makes it panic
			if err := back.UnmarshalBinary(b[:i]); err == nil {
				t.Errorf("%x of %x decodes", b[:i], b)
			}
		}
		if err := back.UnmarshalBinary(append(b, 0)); err == nil {
			t.Error("a byte too many is no error")
		}
	}
	// Keys that look like parts of an address are keys.
	for _, key := range []string{"", "$", "a$1", "a/b", "/", "\x00"} {
		nodetest.Want(t, ctx, notes.push.Call(ctx, notes.kind.Get(key), "x"), 1)
	}
}

func TestGrainThatIsNone(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	other := grains.DefineIn[Note](raysys.NewTable(), "other")
	for name, g := range map[string]ref{"zero": {}, "of another kind": other.Get("a")} {
		err := nodetest.Fails(t, ctx, notes.push.Call(ctx, g, "x"), raysys.ErrInvalidRef)
		t.Log(name, err)
		if err := notes.push.Tell(ctx, g, "x"); !errors.Is(err, raysys.ErrInvalidRef) {
			t.Error(name, err)
		}
	}
	nodetest.Fails(t, ctx, notes.push.On(ctx, notes.kind.Get("a"), raysys.Ref[string]{}), raysys.ErrInvalidRef)
}

func TestCallsThatCannotBeMade(t *testing.T) {
	n, ctx := nodetest.Start(t, system.Config{Table: notes.table})
	strange := newNotes(raysys.NewTable())
	a := notes.kind.Get("a")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	stopped := n.Context(cancelled)
	nodetest.Eventually(t, "the driver's turn learns of its context's end", func() bool {
		turn, _, _ := core.TurnOf(stopped)
		return turn.Cancelled() != nil
	})
	plain := context.Background()
	for name, c := range map[string]struct {
		r    raysys.Ref[int]
		want error
	}{
		"no runtime":        {notes.push.Call(plain, a, "x"), raysys.ErrNoRuntime},
		"no runtime on":     {notes.push.On(plain, a, raysys.Ready("x")), raysys.ErrNoRuntime},
		"another table":     {strange.push.Call(ctx, strange.kind.Get("a"), "x"), raysys.ErrUnknownFunc},
		"cancelled":         {notes.push.Call(cancelled, a, "x"), context.Canceled},
		"cancelled driver":  {notes.push.Call(stopped, a, "x"), raysys.ErrCancelled},
		"bad option":        {notes.push.With(raysys.Deadline(-1)).Call(ctx, a, "x"), raysys.ErrBadOption},
		"failed argument":   {notes.push.On(ctx, a, raysys.Ref[string](core.FailedRef[string](errNote))), errNote},
		"released argument": {notes.push.On(ctx, a, released()), raysys.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Fails(t, ctx, c.r, c.want)
		})
	}
	if grainengine.Of(ctx).Activations("note") != 0 {
		t.Error("a refused call activated a grain")
	}
}

func released() raysys.Ref[string] {
	r := raysys.Ready("x")
	r.Release()
	return r
}

// TestTellReportsNoFailure: Tell's error says that the call was not queued. It must not depend on how fast the method
// fails.
func TestTellReportsNoFailure(t *testing.T) {
	ctx := nodetest.Driver(t, notes.table)
	a := notes.kind.Get("a")
	for range 20_000 {
		if err := notes.bad.Tell(ctx, a); errors.Is(err, errNote) {
			t.Fatalf("Tell returned the method's failure: %v", err)
		}
		runtime.Gosched() // the grain keeps up, so that it may be as fast as Tell
	}
}

func TestSelf(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[Note](tb, "self")
	other := grains.DefineIn[Note](tb, "other")
	key := grains.Method0(k, "key", func(_ *Note, ctx context.Context) (string, error) {
		id, ok := grains.Self(ctx)
		g, ok2 := k.Self(context.WithValue(ctx, ctxKey{}, 1))
		b, ok3 := k.Self(raysys.Branch(ctx, 1))
		_, ok4 := other.Self(ctx)
		if !ok || !ok2 || !ok3 || ok4 || g != k.Get(id.Key) || b != g {
			return "", fmt.Errorf("%v %v %v %v: %v %v %v", ok, ok2, ok3, ok4, id, g, b)
		}
		return g.String(), nil
	})
	ctx := nodetest.Driver(t, tb)
	nodetest.Want(t, ctx, key.Call(ctx, k.Get("me")), "self/me")
	if id, ok := grains.Self(ctx); ok {
		t.Error("a driver is grain", id)
	}
	if id, ok := grains.Self(context.Background()); ok {
		t.Error("nobody is grain", id)
	}
	if err := grains.Deactivate(ctx); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error("a driver deactivates:", err)
	}
}

type ctxKey struct{}

// TestValuesOfContext: plain context values stay behind, declared ones travel.
func TestValuesOfContext(t *testing.T) {
	tenant := raysys.NewContextKey[string]("tenant")
	tb := raysys.NewTable()
	k := grains.DefineIn[Note](tb, "k")
	see := grains.Method0(k, "see", func(_ *Note, ctx context.Context) (string, error) {
		v, _ := tenant.From(ctx)
		return fmt.Sprint(v, ctx.Value(ctxKey{})), nil
	})
	hop := grains.Method0(k, "hop", func(_ *Note, ctx context.Context) (string, error) {
		return see.Call(ctx, k.Get("next")).Get(ctx)
	})
	ctx := context.WithValue(nodetest.Driver(t, tb), ctxKey{}, "secret")
	nodetest.Want(t, ctx, see.Call(ctx, k.Get("a")), "<nil>")
	nodetest.Want(t, ctx, hop.Call(tenant.With(ctx, "acme"), k.Get("a")), "acme<nil>")
}

// TestLongKey: a key has a bound, which every way to call a grain reports in one short line.
func TestLongKey(t *testing.T) {
	_, ctx := nodetest.Node(t, notes.table, 2)
	longest := notes.kind.Get(strings.Repeat("\x01", 1024))
	nodetest.Want(t, ctx, notes.push.Call(ctx, longest, "a"), 1)
	for _, size := range []int{1025, 8 << 20} {
		g := notes.kind.Get(strings.Repeat("k", size))
		for what, err := range map[string]error{
			"Call": nodetest.Fails(t, ctx, notes.push.Call(ctx, g, "a"), raysys.ErrTooLarge), "On": nodetest.Fails(t, ctx, notes.push.On(ctx, g, raysys.Ready("a")), raysys.ErrTooLarge),
			"Tell": notes.add.Tell(ctx, g, "a"),
		} {
			if !errors.Is(err, raysys.ErrTooLarge) || len(err.Error()) > 150 || !strings.Contains(err.Error(), "1024 are allowed") {
				t.Errorf("%s: %.300v", what, err)
			}
		}
	}
}
