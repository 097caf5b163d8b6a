package grainengine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
)

// tape keeps the frames of grains that pass between two nodes.
type tape struct {
	mu    sync.Mutex
	lines []string
	from  *fakeNode // nil for both
}

func (tp *tape) only(n *fakeNode) {
	tp.mu.Lock()
	tp.from = n
	tp.mu.Unlock()
}

func (tp *tape) record(net *fakeNet) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.onWire = func(_ *fakeLink, from *fakeNode, kind wire.Kind, frame []byte) {
		if kind < wire.KindCall || kind > wire.KindCallCancel {
			return
		}
		tp.mu.Lock()
		defer tp.mu.Unlock()
		if tp.from != nil && tp.from != from {
			return
		}
		shown := frame
		if len(shown) > 300 { // the argument's own bytes are the codec's matter
			shown = shown[:40]
		}
		tp.lines = append(tp.lines, fmt.Sprintf("%s %d %d %x", from.name, kind, len(frame), shown))
	}
}

// TestFramesOfThisVersion: a scripted session sends, byte for byte, what testdata says this version sends. Nothing large is pushed: the
// bulk connection has no room.
func TestFramesOfThisVersion(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	tp := &tape{}
	tp.record(r.net)
	ctx := a.context()
	g := r.kind.Get("x")
	free := raysys.NoDeadline()
	wants(t, ctx, r.add.With(free).Call(ctx, g, 5), 5)
	wants(t, ctx, r.add.With(free).ReadOnly().Reentrant().Call(ctx, g, 6), 11)
	nodetest.Fails(t, ctx, r.fail.With(free).Call(ctx, g), errTooFar)
	refuseLarge(a, b, 1)
	wants(t, ctx, r.big.With(free).Call(ctx, g, make([]byte, 70_000)), 70_000)
	refuseLarge(b, a, 1)
	if v, err := r.make.With(free).Call(ctx, g, 70_000).Get(ctx); err != nil || len(v) != 70_000 {
		t.Error(len(v), err)
	}
	if _, err := r.quit.Call(b.context(), g).Get(b.context()); err != nil {
		t.Error(err)
	}
	nodetest.Eventually(t, "b lets it go", func() bool { return r.net.placeOf(idOf(g)).IsZero() })
	r.net.put(idOf(g), a)
	wants(t, ctx, r.add.With(free).Call(ctx, g, 1), 1)

	tp.only(a) // whether an answer crosses the cancellation is chance
	r.on(b)
	wait := r.gate.With(free).Call(ctx, r.kind.Get("y"))
	<-r.entered
	wait.Cancel()
	<-r.over
	tp.mu.Lock()
	got := strings.Join(tp.lines, "\n") + "\n"
	tp.mu.Unlock()
	if want := string(golden.Bytes(t, "v1/frames.txt", []byte(got))); got != want {
		t.Errorf("frames changed: a node of this version could not talk to one of the version that wrote the golden file\ngot\n%s\nwant\n%s", got, want)
	}
}

// TestPushedFramesOfThisVersion is the same of an argument and a result that are pushed.
func TestPushedFramesOfThisVersion(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx := a.context()
	g, free := r.kind.Get("x"), raysys.NoDeadline()
	wants(t, ctx, r.add.With(free).Call(ctx, g, 5), 5)
	tp := &tape{}
	tp.record(r.net)
	wants(t, ctx, r.big.With(free).Call(ctx, g, make([]byte, 70_000)), 70_000)
	if v, err := r.make.With(free).Call(ctx, g, 70_000).Get(ctx); err != nil || len(v) != 70_000 {
		t.Error(len(v), err)
	}
	tp.mu.Lock()
	slices.Sort(tp.lines) // the two connections have no order
	got := strings.Join(tp.lines, "\n") + "\n"
	tp.mu.Unlock()
	if want := string(golden.Bytes(t, "v1/frames-pushed.txt", []byte(got))); got != want {
		t.Errorf("frames changed: a node of this version could not talk to one of the version that wrote the golden file\ngot\n%s\nwant\n%s", got, want)
	}
}

// pair is two connected nodes with an open turn of a at b, for frames made by hand.
func pair(t testing.TB) (r *rovers, atB *fakePeer, scope uint32) {
	r = newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx := a.context()
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 1)
	p := a.Peer(core.NodeKey{Node: "b", Incarnation: 1}).(*fakePeer)
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if scope, err = p.Open(turn); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "b knows the turn", func() bool { return p.twin.Turn(scope) != nil })
	return r, p.twin, scope
}

// head makes a KindCall by hand, as docs/frames say it is: see call.go.
func head(flags, slot uint64, scope, method uint32, key string, token graindir.Token) []byte {
	b := wire.AppendUvarint(nil, flags)
	b = wire.AppendUvarint(b, slot)
	b = wire.AppendUvarint(b, uint64(scope))
	b = wire.AppendUvarint(b, uint64(method))
	b = wire.AppendBytes(b, key)
	b = wire.AppendUvarint(wire.AppendUvarint(b, token.Epoch), token.Seq)
	b = wire.AppendUvarint(b, 0)
	return wire.AppendUvarint(b, 9)
}

// one is the encoded argument 1.
var one = []byte{3, 0, 0, 0, 1, 5, 1}

// TestUnknownFields: what a later version adds to the end of a frame, and flags it sets, are skipped (rule C4).
func TestUnknownFields(t *testing.T) {
	r, p, scope := pair(t)
	token := r.net.placeOf(idOf(r.kind.Get("x"))).Token
	add, _ := p.twin.Runs(r.net.table.Lookup("method", "rover.add"))
	frame := append(append(head(1<<20, 7777, scope, add, "x", token), one...), "news of version 2"...)
	if err := p.local.engine.Receive(p, wire.KindCall, frame); err != nil {
		t.Fatal(err)
	}
	ctx := p.local.context()
	nodetest.Eventually(t, "it ran", func() bool {
		v, err := r.add.Call(ctx, r.kind.Get("x"), 0).Get(ctx)
		return err == nil && v == 2
	})
	if err := p.local.engine.Receive(p, wire.KindCallCancel, append(wire.AppendUvarint(nil, 1), 1, 2, 3)); err != nil {
		t.Error(err)
	}
	// An outcome of a later version ends the call, and not the link.
	a := p.remote
	f := r.gate.Call(a.context(), r.kind.Get("x"))
	<-r.entered
	slot := lastSlot(t, r, p)
	if err := a.engine.Receive(p.twin, wire.KindCallResult, append(wire.AppendUvarint(nil, slot), 99)); err != nil {
		t.Error(err)
	}
	nodetest.Fails(t, a.context(), f, raysys.ErrOutcomeUnknown)
	close(r.leave)
}

// lastSlot finds the number of the one call that a has open at b, by asking for each.
func lastSlot(t *testing.T, r *rovers, p *fakePeer) uint64 {
	t.Helper()
	for gen := range uint64(50) {
		for i := range uint64(4) {
			n := gen<<32 | i
			before := p.remote.engine
			if grainengine.OpenAt(before, p.twin, n) {
				return n
			}
		}
	}
	t.Fatal("no call is open")
	return 0
}

// TestHostileFrames: what breaks the rules condemns the link, what is merely wrong is answered, and neither harms.
func TestHostileFrames(t *testing.T) {
	r, p, scope := pair(t)
	token := r.net.placeOf(idOf(r.kind.Get("x"))).Token
	add, _ := p.twin.Runs(r.net.table.Lookup("method", "rover.add"))
	kind, _ := p.twin.Runs(r.net.table.Lookup("grain", "rover"))
	whole := append(head(0, 7777, scope, add, "x", token), one...)
	cut := head(0, 1, scope, add, "x", token)
	for _, c := range []struct {
		name    string
		kind    wire.Kind
		frame   []byte
		corrupt bool
	}{
		{"empty call", wire.KindCall, nil, true},
		{"cut head", wire.KindCall, cut[:5], true},
		{"no argument", wire.KindCall, cut, true},
		{"cut argument", wire.KindCall, whole[:len(whole)-1], true},
		{"a kind is no method", wire.KindCall, append(head(0, 1, scope, kind, "x", token), one...), true},
		{"number beyond the bound", wire.KindCall, append(head(0, 1<<31, scope, add, "x", token), one...), true},
		{"unknown method", wire.KindCall, append(head(0, 1, scope, 9999, "x", token), one...), false},
		{"unknown turn", wire.KindCall, append(head(0, 1, 9999, add, "x", token), one...), false},
		{"argument of another type", wire.KindCall, append(head(0, 1, scope, add, "x", token), 3, 0, 0, 0, 1, 5, 0x60), false},
		{"body of nothing", wire.KindCall, []byte{16, 5, 1, 0, 0, 0, 0}, false},
		{"empty result", wire.KindCallResult, nil, true},
		{"result of nothing", wire.KindCallResult, []byte{5, 0, 1}, false},
		{"empty cancel", wire.KindCallCancel, nil, true},
		{"cancel of nothing", wire.KindCallCancel, []byte{9}, false},
		{"not of grains", wire.KindTasks, nil, true},
	} {
		err := p.local.engine.Receive(p, c.kind, c.frame)
		if c.corrupt != errors.Is(err, wire.ErrCorrupt) || !c.corrupt && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx := p.remote.context()
	wants(t, ctx, r.add.Call(ctx, r.kind.Get("x"), 1), 2)
}

// FuzzReceive: no frame, however made, makes an engine panic or lose its grains.
func FuzzReceive(f *testing.F) {
	r, p, scope := pair(f)
	token := r.net.placeOf(idOf(r.kind.Get("x"))).Token
	for _, name := range []string{"add", "big", "where", "noted"} {
		m, _ := p.twin.Runs(r.net.table.Lookup("method", "rover."+name))
		f.Add(byte(wire.KindCall), append(head(0, 3, scope, m, "x", token), one...))
		f.Add(byte(wire.KindCall), append(head(8, 3, scope, m, "x", token), one...))
		f.Add(byte(wire.KindCall), head(8|512, 3, scope, m, "x", token))
		f.Add(byte(wire.KindCall), append(head(0, 3, scope, m, "new", graindir.Token{Epoch: 9, Seq: 9}), one...))
	}
	f.Add(byte(wire.KindCall), append([]byte{16, 3}, one...))
	f.Add(byte(wire.KindCall), append(wire.AppendUvarint(nil, 16|512), append([]byte{3}, one...)...))
	f.Add(byte(wire.KindCall), append(wire.AppendUvarint(nil, 16|512), 3))
	f.Add(byte(wire.KindCallResult), []byte{0, 0, 1, 0, 0, 0, 5})
	f.Add(byte(wire.KindCallResult), []byte{0, 2, 1, 'a', 1, 1, 7})
	f.Add(byte(wire.KindCallResult), []byte{0, 3})
	f.Add(byte(wire.KindCallCancel), []byte{3})
	for _, name := range []string{"method", "grain"} { // the second is an entry that is no method
		m, _ := p.twin.Runs(r.net.table.Lookup(name, map[string]string{"method": "rover.add", "grain": "rover"}[name]))
		f.Add(byte(wire.KindCallForget), wire.AppendID(wire.AppendBytes(wire.AppendUvarint(nil, uint64(m)), "x"), raysys.TaskID{Hi: 1}))
		f.Add(byte(wire.KindCallAsk), wire.AppendID(append(wire.AppendBytes(wire.AppendUvarint(nil, uint64(m)), "x"), 1), raysys.TaskID{Hi: 1}))
		f.Add(byte(wire.KindCallAsk), append(wire.AppendBytes(wire.AppendUvarint(nil, uint64(m)), "x"), 2))
	}
	f.Add(byte(wire.KindCallResults), []byte{7, 0, 0, 1, 0, 0, 0, 5, 2, 0, 3})
	f.Add(byte(wire.KindCalls), wire.AppendBytes(nil, append(head(0, 3, scope, 1, "x", token), one...)))
	f.Add(byte(wire.KindCalls), []byte{200, 1})
	ctx := p.local.context()
	f.Fuzz(func(t *testing.T, kind byte, frame []byte) {
		_ = p.local.engine.Receive(p, wire.Kind(kind), frame)
		_ = p.remote.engine.Receive(p.twin, wire.Kind(kind), frame)
		if _, err := r.add.Call(ctx, r.kind.Get("steady"), 1).Get(ctx); err != nil {
			t.Error(err)
		}
	})
}
