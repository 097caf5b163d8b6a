package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// lender is a grain with one large object, whose reference it gives to who asks.
type lender struct{ object raysys.Handle[parcel] }

func (l *lender) Give(ctx context.Context) (raysys.Handle[parcel], error) {
	if l.object == (raysys.Handle[parcel]{}) {
		l.object = raysys.Put(ctx, newParcel(3, large)).Handle()
	}
	return l.object, nil
}

var (
	lenders    = grains.DefineIn[lender](table, "lender")
	lenderGive = grains.Method0(lenders, "give", (*lender).Give)
)

// TestPendingDropsEndWithTheirConnection: a reference comes twice, and before the second is given back the connection
// breaks. The new one begins with what is held, in which the second does not count: giving it back too would free what
// is held.
func TestPendingDropsEndWithTheirConnection(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		w, _ := b.join("w", system.Worker)
		d, ctx := b.join("d", system.Driver)
		g := lenders.Get("x")
		first, err := lenderGive.Call(ctx, g).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second) // nothing is on its way
		if _, err := lenderGive.Call(ctx, g).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if n := system.Owed(d); n != 1 {
			t.Fatalf("%d references are about to be given back, want 1: the test shows nothing", n)
		}
		system.Break(d, "w")
		<-time.After(system.DropPause / 2)
		if system.Connected(d) != 1 {
			t.Fatal("there is no new connection yet when what is owed is told: the test shows nothing")
		}
		<-time.After(10 * time.Second)
		if e, _ := system.References(w); e != 1 {
			t.Errorf("the owner counts %d references as held, want 1: one that was about to be given back when the connection ended was given back on the new one too", e)
		}
		if p, err := first.Ref().Get(ctx); err != nil {
			t.Errorf("the holder of a reference cannot read it: %v", err)
		} else if n, err := p.seed(); n != 3 || err != nil {
			t.Error(n, err)
		}
	})
}
