package system_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	lateGate chan struct{}
	packLate = tasks.DefineIn(table, "packLate", func(ctx context.Context, o order) (parcel, error) {
		<-lateGate
		p := newParcel(o.Seed, 10)
		p.Inner = append(p.Inner, raysys.Put(ctx, newParcel(o.Seed+1, o.Size)).Handle())
		return p, nil
	})
	awaitLate = tasks.DefineIn(table, "awaitLate", func(ctx context.Context, h raysys.Handle[parcel]) (int, error) {
		p, err := h.Ref().Get(ctx)
		return len(p.Data), err
	})
)

// TestResultForTheDead: a future that settles long after the node died that waited for it lends nothing to that node.
func TestResultForTheDead(t *testing.T) {
	lateGate = make(chan struct{})
	w1, w2, d, ctx := newTrio(t)
	func() {
		late := packLate.With(on("w1")).Go(ctx, order{3, large, 1})
		waiting := awaitLate.With(on("w2")).Go(ctx, late.Handle())
		settles(t, "w2 waits for it", func() bool { _, i := system.References(w2); return i == 1 && system.Awaiting(w2) == 1 })
		if e, _ := system.References(d); e != 1 {
			t.Fatalf("d exports %d futures, want the one that w2 holds: the test shows nothing", e)
		}
		if err := w2.Kill(context.Background(), errShort); err != nil {
			t.Error(err)
		}
		settles(t, "what w2 held counts no more", func() bool { e, _ := system.References(d); return e == 0 })
		waiting.Cancel()
		close(lateGate)
		if p, err := late.Get(ctx); err != nil || len(p.Inner) != 1 {
			t.Fatal(err)
		}
	}()
	free(t, d, w1)
}

// TestRefusedFrameLendsNothing: references in a frame that is not sent are given back, those inside a small value too.
func TestRefusedFrameLendsNothing(t *testing.T) {
	f := newFleet(t)
	w, _ := f.place("w1", system.Worker)
	d, ctx := f.place("d", system.Driver)
	meet(t, d, w)
	big := raysys.Put(ctx, newParcel(1, large))
	small := raysys.Put(ctx, parcel{Data: []uint32{1}, Inner: []raysys.Handle[parcel]{big.Handle()}})
	for what, c := range map[string]*core.Future{"large": core.FutureOf(big.Link), "inside": core.FutureOf(small.Link)} {
		if exported, left, err := system.ExportedAndTakenBack(d, "w1", c); exported == 0 || left != 0 || err != nil {
			t.Errorf("%s: %d futures were exported, and %d are still: %v", what, exported, left, err)
		}
	}
	runtime.KeepAlive(big)
	runtime.KeepAlive(small)
}
