package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestDrainLosesNothing: under load from every node a drain moves all grains away, and every call is answered once,
// without an error; OnDeactivate ran for all of them.
func TestDrainLosesNothing(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	var ended atomic.Int32
	k := grains.DefineIn[leaver](tb, "leaver")
	hit := grains.Method(k, "hit", func(g *leaver, ctx context.Context, _ int) (string, error) {
		g.ended = &ended
		turn, _, err := core.TurnOf(ctx)
		return string(turn.Job().Node), err
	})
	a, b, c := net.add("a"), net.add("b"), net.add("c")
	const keys = 40
	for i := range keys {
		if v, err := hit.Call(a.context(), k.Get(fmt.Sprint(i)), 0).Get(a.context()); err != nil {
			t.Fatal(v, err)
		}
	}
	was := b.engine.Activations("leaver")
	if was == 0 {
		t.Fatal("b has no grain")
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	var calls atomic.Int64
	for w, n := range []*fakeNode{a, b, c, a} {
		load.Add(1)
		go func() {
			defer load.Done()
			ctx := n.context()
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				var refs []raysys.Ref[string]
				for j := range 20 {
					refs = append(refs, hit.Call(ctx, k.Get(fmt.Sprint((i*7+j)%keys)), i))
				}
				for _, r := range refs {
					if _, err := r.Get(ctx); err != nil {
						t.Error(n.name, err)
						return
					}
					calls.Add(1)
				}
			}
		}()
	}
	for begin := calls.Load(); calls.Load() < begin+2000 && !t.Failed(); {
		<-time.After(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.drain(ctx); err != nil {
		t.Error(err)
	}
	if n := b.engine.Activations("leaver"); n != 0 || int(ended.Load()) < was {
		t.Error(n, "are left;", ended.Load(), "of", was, "have ended")
	}
	net.mu.Lock()
	for id, p := range net.places {
		if p.Node == "b" {
			t.Error(id, "is still placed on b")
		}
	}
	net.mu.Unlock()
	for begin := calls.Load(); calls.Load() < begin+2000 && !t.Failed(); {
		<-time.After(time.Millisecond)
	}
	close(stop)
	load.Wait()
}

type leaver struct{ ended *atomic.Int32 }

func (l *leaver) OnDeactivate(context.Context) error {
	if l.ended != nil {
		l.ended.Add(1)
	}
	return nil
}

// TestDrainWaits for turns, and says at the end of its context how many; the calls behind them follow the grain.
func TestDrainWaits(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx, here := a.context(), b.context()
	g := r.kind.Get("x")
	busy := r.gate.Call(ctx, g)
	<-r.entered
	far, near := r.where.Call(ctx, g), r.where.Call(here, g)
	short, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	r.on(a)
	if err := b.drain(short); err == nil || !strings.Contains(err.Error(), "1 grains") || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
	close(r.leave)
	if err := b.drain(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := busy.Get(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, far, "a")
	wants(t, here, near, "a")
	wants(t, here, r.where.Call(here, g), "a")
}

// TestDrainRefusesPlacement: a grain that the registry puts on a node that drains goes elsewhere.
func TestDrainRefusesPlacement(t *testing.T) {
	r := newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	if err := b.drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.net.put(idOf(r.kind.Get("x")), b)
	r.on(a)
	wants(t, a.context(), r.where.Call(a.context(), r.kind.Get("x")), "a")
	r.net.put(idOf(r.kind.Get("y")), b)
	wants(t, b.context(), r.where.Call(b.context(), r.kind.Get("y")), "a")
	// A registry that insists is refused in the end.
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		b := r.net.add("b")
		r.net.add("a")
		if err := b.engine.Drain(context.Background()); err != nil { // the registry is not told
			t.Fatal(err)
		}
		r.on(b)
		nodetest.Fails(t, b.context(), r.where.Call(b.context(), r.kind.Get("z")), raysys.ErrNotDelivered)
	})
}

// TestDrainAlone: a single process has nowhere to drain to.
func TestDrainAlone(t *testing.T) {
	h := newSilent()
	n, ctx := nodetest.Start(t, configOf(h.table))
	wants(t, ctx, h.add.Call(ctx, h.kind.Get("x")), 1)
	if err := engineOf(n).Drain(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, h.add.Call(ctx, h.kind.Get("x")), 2)
}

// TestCloseEndsWhatIsOpen: calls on their way end with ErrClosed when their own node closes, and follow the grain when
// it is the target that closes.
func TestCloseEndsWhatIsOpen(t *testing.T) {
	r, a, _, ctx := apart(t)
	f := r.gate.Call(ctx, r.kind.Get("x"))
	<-r.entered
	let := r.net.slowly("locate")
	g := r.add.Call(ctx, r.kind.Get("y"), 1)
	a.close()
	nodetest.Fails(t, ctx, f, raysys.ErrClosed)
	nodetest.Fails(t, ctx, g, raysys.ErrClosed)
	nodetest.Fails(t, ctx, r.add.Call(ctx, r.kind.Get("y"), 1), raysys.ErrClosed)
	let()
	close(r.leave)

	r = newRovers(t)
	a, b := r.net.add("a"), r.net.add("b")
	r.on(b)
	ctx = a.context()
	busy := r.gate.Call(ctx, r.kind.Get("x"))
	<-r.entered
	next := r.where.Call(ctx, r.kind.Get("x"))
	nodetest.Eventually(t, "it waits on b", func() bool { return grainengine.Queued(b.engine, idOf(r.kind.Get("x"))) == 1 })
	r.on(a)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.close()
	}()
	nodetest.Eventually(t, "the grain on b is told to stop", func() bool { return grainengine.Told(b.engine, idOf(r.kind.Get("x"))) })
	close(r.leave)
	if _, err := busy.Get(ctx); err != nil && !errors.Is(err, raysys.ErrOutcomeUnknown) && !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}
	wants(t, ctx, next, "a")
	<-done
}
