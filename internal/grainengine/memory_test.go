package grainengine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// blob is an argument or result whose memory a test can watch.
type blob struct{ B *[1 << 16]byte }

// blobs is a kind that takes and gives them.
type blobs struct {
	table *raysys.Table
	kind  grains.Kind[cell]
	take  grains.Func[cell, blob, int]
	give  grains.Func0[cell, blob]
	made  chan weak.Pointer[[1 << 16]byte]
}

func newBlobs(opts ...grains.Option) *blobs {
	b := &blobs{table: raysys.NewTable(), made: make(chan weak.Pointer[[1 << 16]byte], 1000)}
	b.kind = grains.DefineIn[cell](b.table, "blobs", opts...)
	b.take = grains.Method(b.kind, "take", func(_ *cell, _ context.Context, x blob) (int, error) { return len(x.B), nil })
	b.give = grains.Method0(b.kind, "give", func(*cell, context.Context) (blob, error) {
		x := new([1 << 16]byte)
		b.made <- weak.Make(x)
		return blob{x}, nil
	})
	return b
}

func (b *blobs) freed(t *testing.T, what string, p weak.Pointer[[1 << 16]byte]) {
	t.Helper()
	nodetest.EventuallyGC(t, what, func() bool { return p.Value() == nil })
}

// TestIdleHoldsNoCall: an activation in memory, or a worker, keeps neither the last argument nor the last result.
func TestIdleHoldsNoCall(t *testing.T) {
	for name, opts := range map[string][]grains.Option{
		"grain": nil, "worker": {grains.StatelessWorker(2)}, "reentrant": {grains.Reentrant()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBlobs(opts...)
			self := grains.Action0(b.kind, "self", func(_ *cell, ctx context.Context) error {
				me, _ := b.kind.Self(ctx)
				_, err := b.give.Call(ctx, me).Get(ctx)
				return err
			})
			n, ctx := nodetest.Start(t, system.Config{Table: b.table})
			a := b.kind.Get("a")
			for range 3 {
				func() {
					if _, err := b.give.Call(ctx, a).Get(ctx); err != nil {
						t.Error(err)
					}
				}()
				b.freed(t, "the result is freed", <-b.made)
				x := new([1 << 16]byte)
				p := weak.Make(x)
				func() { wants(t, ctx, b.take.Call(ctx, a, blob{x}), 1<<16) }()
				x = nil
				b.freed(t, "the argument is freed", p)
			}
			if name == "reentrant" { // a call that was let in leaves nothing either
				func() {
					if _, err := self.Call(ctx, a).Get(ctx); err != nil {
						t.Error(err)
					}
				}()
				b.freed(t, "the result of an admitted call is freed", <-b.made)
			}
			if engineOf(n).Activations("blobs") == 0 {
				t.Error("nothing is active: the test shows nothing")
			}
		})
	}
}

// TestKeptFutureHoldsNoOthers: calls are links of a queue, but a future that is kept must not keep those behind it.
func TestKeptFutureHoldsNoOthers(t *testing.T) {
	b := newBlobs()
	gate := make(chan bool)
	hold := grains.Action0(b.kind, "hold", func(*cell, context.Context) error { <-gate; return nil })
	ctx := nodetest.Driver(t, b.table)
	a := b.kind.Get("a")
	first := hold.Call(ctx, a)
	for range 50 {
		if err := b.give.Tell(ctx, a); err != nil {
			t.Error(err)
		}
	}
	gate <- true
	for range 50 {
		b.freed(t, "the result of a later call is freed", <-b.made)
	}
	if _, err := first.Get(ctx); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(first)
}

// TestResultHoldsNoArgument: the future of a call by reference does not keep the reference's value.
func TestResultHoldsNoArgument(t *testing.T) {
	b := newBlobs()
	ctx := nodetest.Driver(t, b.table)
	x := new([1 << 16]byte)
	p := weak.Make(x)
	var r raysys.Ref[int]
	func() {
		r = b.take.On(ctx, b.kind.Get("a"), raysys.Put(ctx, blob{x}))
		wants(t, ctx, r, 1<<16)
	}()
	x = nil
	b.freed(t, "the argument is freed", p)
	runtime.KeepAlive(r)
}

// TestPassivatedStateIsFreed: the G goes with the activation, and so does all that stood for the key.
func TestPassivatedStateIsFreed(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"grain": nil, "worker": {grains.StatelessWorker(2)}} {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[blob](tb, "k", append(opts, grains.IdleAfter(20*time.Millisecond))...)
			made := make(chan weak.Pointer[[1 << 16]byte], 1)
			fill := grains.Action0(k, "fill", func(b *blob, _ context.Context) error {
				b.B = new([1 << 16]byte)
				made <- weak.Make(b.B)
				return nil
			})
			n, ctx := nodetest.Start(t, system.Config{Table: tb})
			r := fill.Call(ctx, k.Get("a"))
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
			p := <-made
			nodetest.EventuallyGC(t, "the state is freed", func() bool { return p.Value() == nil })
			nodetest.Eventually(t, "the activation is gone", func() bool { return engineOf(n).Activations("k") == 0 })
			runtime.KeepAlive(r)
		})
	}
}

// TestIdleGrainsAreSmall: grains that were called once hold at most 1 KiB of heap each.
func TestIdleGrainsAreSmall(t *testing.T) {
	count, limit := long.Form(20_000, 100_000), int64(1024)
	h := newSilent()
	n, ctx := nodetest.Start(t, system.Config{Table: h.table})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := 0; i < count; {
		var gs []grains.Grain[silent]
		for range 1000 {
			gs = append(gs, h.kind.Get(fmt.Sprint(i)))
			i++
		}
		for _, r := range h.add.Each(ctx, gs) {
			wants(t, ctx, r, 1)
		}
	}
	each := (heap() - before) / int64(count)
	t.Logf("%d B per idle grain", each)
	if each > limit {
		t.Errorf("%d B per idle grain, want at most %d", each, limit)
	}
	if a := engineOf(n).Activations("k"); a != count {
		t.Error(a, "activations")
	}
}

// silent is a grain with both hooks.
type silent struct{ n int }

func (s *silent) OnActivate(context.Context) error   { return nil }
func (s *silent) OnDeactivate(context.Context) error { return nil }

type silentKind struct {
	table *raysys.Table
	kind  grains.Kind[silent]
	add   grains.Func0[silent, int]
}

func newSilent() silentKind {
	tb := raysys.NewTable()
	k := grains.DefineIn[silent](tb, "k")
	return silentKind{tb, k, grains.Method0(k, "add", func(s *silent, _ context.Context) (int, error) { s.n++; return s.n, nil })}
}
