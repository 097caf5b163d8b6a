package system_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
)

var (
	depotMade = grains.Method(depots, "made", func(_ *depot, _ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
	depotRefs = grains.Method(depots, "refs", func(_ *depot, ctx context.Context, n int) (refs []raysys.Handle[[]byte], err error) {
		for range n {
			refs = append(refs, raysys.Put(ctx, make([]byte, 100_000)).Handle())
		}
		return refs, nil
	})
)

// TestCancelledOnTheWay: a caller that cancels while the answer is on its way gives back what that refers to: the large result itself, and
// references in one, also in one that goes over the bulk connection.
func TestCancelledOnTheWay(t *testing.T) {
	f := newFleet(t)
	answers, cancelled := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	w, _ := f.place("w1", system.Worker, func(c *system.Config) {
		standins.Of(c.Cluster).Chaos = func(_ raysys.NodeID, _ wire.Class, k wire.Kind) link.Action {
			if (k == wire.KindCallResult || k == wire.KindCallResults) && hold.CompareAndSwap(true, false) {
				answers <- struct{}{}
				<-cancelled
			}
			return link.Pass
		}
	})
	d, ctx := f.place("d", system.Driver)
	meet(t, d, w)
	g := depots.Get("crossed")
	if _, err := depotMade.Call(ctx, g, 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() bool{
		"a large result":       func() bool { r := depotMade.Call(ctx, g, 3<<20); <-answers; return r.Cancel() },
		"references":           func() bool { r := depotRefs.Call(ctx, g, 3); <-answers; return r.Cancel() },
		"references over bulk": func() bool { r := depotRefs.Call(ctx, g, 4000); <-answers; return r.Cancel() },
	} {
		hold.Store(true)
		if !call() {
			t.Error(name, "was not cancelled")
		}
		cancelled <- struct{}{}
		settles(t, name+": nothing is held", func() bool {
			runtime.GC()
			e, _ := system.References(w)
			return e == 0
		})
	}
}
