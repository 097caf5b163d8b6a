package taskengine_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// recorded are the frames of each kind that a short run sends.
func recorded(t testing.TB) map[wire.Kind][][]byte {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 1)
	l := join(t, d, w)
	var mu sync.Mutex
	frames := map[wire.Kind][][]byte{}
	l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		mu.Lock()
		defer mu.Unlock()
		frames[k] = append(frames[k], bytes.Clone(p))
		return deliver
	})
	ctx := d.ctx()
	nodetest.Want(t, ctx, f.square.With(raysys.Deadline(nodetest.Patience)).Go(ctx, 4), 16)
	nodetest.Want(t, ctx, f.square.Map(ctx, []int{1, 2, 3})[2], 9)
	if _, err := nodetest.Get(t, ctx, f.fail.Go(ctx, "no")); err == nil {
		t.Error("no error")
	}
	if _, err := nodetest.Get(t, ctx, f.blob.Go(ctx, []byte("abc"))); err != nil {
		t.Error(err)
	}
	l.cut(errSevered)
	return frames
}

// FuzzFrames gives any bytes to the handlers: they must not panic, and what they refuse is called corrupt.
func FuzzFrames(f *testing.F) {
	kinds := []wire.Kind{wire.KindTasks, wire.KindTaskResult, wire.KindTaskCancel, wire.KindTaskResults}
	for i, k := range kinds {
		for _, b := range recorded(f)[k] {
			f.Add(byte(i), b)
		}
		f.Add(byte(i), []byte{0, 1, 0, 0, 0xff})
	}
	f.Add(byte(2), []byte{1, 2, 3, 4})
	for _, b := range recorded(f)[wire.KindTaskResult] {
		f.Add(byte(3), wire.AppendBytes(wire.AppendBytes(nil, b), b))
	}
	f.Add(byte(3), []byte{200, 1})
	fn := newFunctions()
	a, b := newHost(f, "a", fn.table, 1), newHost(f, "b", fn.table, 1)
	l := join(f, a, b)
	nodetest.Want(f, a.ctx(), fn.square.Go(a.ctx(), 1), 1)
	f.Fuzz(func(t *testing.T, kind byte, frame []byte) {
		e := l.ends[1]
		var err error
		switch kinds[int(kind)%len(kinds)] {
		case wire.KindTasks:
			e.turns.Opened(openFrame)
			err = b.engine.HandleTasks(e, bytes.Clone(frame))
		case wire.KindTaskResult:
			err = b.engine.HandleResult(e, bytes.Clone(frame))
		case wire.KindTaskResults:
			err = b.engine.HandleResults(e, bytes.Clone(frame))
		case wire.KindTaskCancel:
			err = b.engine.HandleCancel(e, bytes.Clone(frame))
		}
		if err != nil && !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%v is not ErrCorrupt", err)
		}
	})
}

// openFrame introduces the turn 1.
var openFrame = func() []byte {
	var frame []byte
	s := wire.Scopes{Send: func(_ wire.Class, _ wire.Kind, p []byte) error { frame = bytes.Clone(p); return nil }}
	j := &core.Job{}
	if _, err := s.Open(core.NewRoot(j, context.Background(), nil, raysys.TaskID{Hi: 1})); err != nil {
		panic(err)
	}
	return frame
}()

// Frames that are cut short or name what is not there are refused with a reason, and change nothing.
func TestCorruptFrames(t *testing.T) {
	frames := recorded(t)
	f := newFunctions()
	a, b := newHost(t, "a", f.table, 1), newHost(t, "b", f.table, 1)
	l := join(t, a, b)
	e := l.ends[1]
	if err := e.turns.Opened(openFrame); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind   wire.Kind
		handle func(wire.Peer, []byte) error
	}{
		{wire.KindTasks, b.engine.HandleTasks},
		{wire.KindTaskResult, b.engine.HandleResult},
		{wire.KindTaskCancel, b.engine.HandleCancel},
	} {
		for _, whole := range frames[c.kind] {
			if err := c.handle(e, bytes.Clone(whole[:len(whole)-1])); !errors.Is(err, wire.ErrCorrupt) && c.kind == wire.KindTasks {
				t.Errorf("kind %d cut short: %v", c.kind, err)
			}
		}
	}
	for name, frame := range map[string][]byte{
		"an unknown function":     {0, 1, 99, 0, 0, 0, 0, 0, 0, 0, 0},
		"an unknown flag":         {0, 1, 0, 0, 0x40, 0, 0, 0, 0, 0, 0},
		"a slot beyond the bound": append([]byte{0, 1, 0, 0, 0}, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0x7f, 0),
	} {
		if err := b.engine.HandleTasks(e, frame); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.engine.HandleResult(e, []byte{0, 1, 0, 77}); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("an unknown status: %v", err)
	}
	if err := b.engine.HandleTasks(l.ends[0], []byte{1}); err != nil {
		t.Errorf("a frame of a peer that is not up: %v", err)
	}
	nodetest.Want(t, a.ctx(), f.square.Go(a.ctx(), 3), 9)
}

// Results that come in a list are taken in many at a time: each once, in any order, and those beside a corrupt one too.
func TestListOfResults(t *testing.T) {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 1)
	l := join(t, d, w)
	if _, err := raysys.GetAll(d.ctx(), f.square.Map(d.ctx(), make([]int, 500))).Values(); err != nil { // so that d knows how much w can take
		t.Fatal(err)
	}
	const n = 100
	var mu sync.Mutex
	var results [][]byte
	l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		if k != wire.KindTaskResult {
			return deliver
		}
		mu.Lock()
		defer mu.Unlock()
		results = append(results, bytes.Clone(p))
		return lose
	})
	ctx := d.ctx()
	refs := make([]raysys.Ref[int], n)
	for i := range refs {
		refs[i] = f.square.Go(ctx, i)
	}
	nodetest.Eventually(t, "all have run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(results) == n
	})
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { results[i], results[j] = results[j], results[i] })
	var list []byte
	for i, r := range results[:60] {
		if i == 50 {
			list = wire.AppendBytes(list, r[:len(r)-1])
			continue
		}
		list = wire.AppendBytes(wire.AppendBytes(list, r), r) // what comes twice counts once
	}
	e := l.ends[0]
	if err := d.engine.HandleResults(e, list); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("a list with an item that is cut short: %v", err)
	}
	settled := 0
	for i, r := range refs {
		if core.FutureOf(r.Link).Settled() {
			settled++
			if v, err := r.Get(ctx); v != i*i && err == nil {
				t.Errorf("square of %d is %d", i, v)
			}
		}
	}
	if settled < 51 { // the one that was cut short is lost
		t.Errorf("%d of 50 whole results and a corrupt one were taken in", settled)
	}
	l.rule(func(raysys.NodeID, wire.Class, wire.Kind, []byte) fate { return deliver }) // the lost one runs again
	list = nil
	for _, r := range results {
		list = wire.AppendBytes(list, r)
	}
	if err := d.engine.HandleResults(e, list); err != nil {
		t.Errorf("all of them: %v", err)
	}
	failed := 0
	for i, r := range refs {
		v, err := nodetest.Get(t, ctx, r)
		switch {
		case err != nil:
			failed++
		case v != i*i:
			t.Errorf("square of %d is %d", i, v)
		}
	}
	if failed > 1 {
		t.Errorf("%d tasks failed", failed)
	}
}

// TestTaskBeforeItsTurn: a task with references that comes before its turn, over the bulk connection, goes back, also one with a
// deadline, whose turn would be made as it is read.
func TestTaskBeforeItsTurn(t *testing.T) {
	table := raysys.NewTable()
	look := tasks.DefineIn(table, "look", func(_ context.Context, hs []raysys.Handle[int]) (int, error) { return len(hs), nil })
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
	var mu sync.Mutex
	var frames [][]byte
	join(t, d, w).rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		mu.Lock()
		defer mu.Unlock()
		if k == wire.KindTasks {
			frames = append(frames, bytes.Clone(p))
		}
		return deliver
	})
	nodetest.Want(t, d.ctx(), look.With(raysys.Deadline(nodetest.Patience)).Go(d.ctx(), nil), 0)
	a, b := newHost(t, "a", table, 0), newHost(t, "b", table, 1)
	l := join(t, a, b)
	given := make(chan []byte, 16)
	l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		if k == wire.KindTaskResult {
			given <- bytes.Clone(p)
		}
		return deliver
	})
	mu.Lock()
	defer mu.Unlock()
	if err := b.engine.HandleTasks(l.ends[1], frames[0]); err != nil { // b knows no turn of a's
		t.Fatal(err)
	}
	nodetest.Arrive(t, given, "the task goes back")
}
