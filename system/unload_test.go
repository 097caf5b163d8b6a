package system_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// lodger is a grain that counts the calls of its activation, and the ends of all.
type lodger struct{ calls int }

var lodgerEnds atomic.Int32 // OnDeactivate has returned

var (
	lodgers    = grains.DefineIn[lodger](table, "lodger", grains.Keep())
	lodgerStay = grains.Method(lodgers, "stay", (*lodger).Stay)
	lodgerAsks = grains.Action0(lodgers, "asks", (*lodger).AsksForItself)
	lodgerPool = grains.DefineIn[resident](table, "lodger.pool", grains.StatelessWorker(1))
	unloadTask = tasks.DefineIn(table, "unload", func(ctx context.Context, key string) (int, error) {
		return 0, grains.Unload(ctx, lodgers.Get(key))
	})
)

// Stay takes so long, and says where it is and how many calls the activation has had.
func (l *lodger) Stay(ctx context.Context, d time.Duration) (string, error) {
	l.calls++
	select {
	case <-time.After(d):
		return fmt.Sprint(system.NodeOf(ctx).Name(), l.calls), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (l *lodger) AsksForItself(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	return grains.Unload(ctx, lodgers.Get(id.Key))
}

func (l *lodger) OnDeactivate(ctx context.Context) error {
	if system.NodeOf(ctx).Name() != "alone" {
		<-time.After(time.Second) // of the bubble
	}
	lodgerEnds.Add(1)
	return nil
}

// TestUnload: when it returns OnDeactivate has run and the grain has no place, so the next call moves it. Calls that wait run first.
func TestUnload(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		at := func(node raysys.NodeID, want string) {
			t.Helper()
			if got, err := lodgerStay.With(raysys.OnNode(node)).Call(ctx, lodgers.Get("a"), 0).Get(ctx); got != want || err != nil {
				t.Errorf("called on node %s it says %s, %v; want %s", node, got, err, want)
			}
		}
		ends := func(want int32) {
			t.Helper()
			if got := lodgerEnds.Swap(0); got != want {
				t.Errorf("OnDeactivate ran %d times, want %d", got, want)
			}
		}
		lodgerEnds.Store(0)
		keys := []string{"no text \xff", "no text \ufffd"} // which are one in JSON
		for _, key := range keys {
			if _, err := lodgerStay.With(raysys.OnNode("b")).Call(ctx, lodgers.Get(key), 0).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for i, key := range keys {
			if s, err := system.NodeOf(ctx).Explain(ctx, "lodger/"+key); s.ID != "lodger/"+key || len(s.Placed) != 1 || err != nil {
				t.Errorf("of %q the nodes say %v, %v", key, s, err)
			}
			if err := grains.Unload(ctx, lodgers.Get(key)); err != nil {
				t.Error(err)
			}
			if ends(1); i > 0 {
				continue
			}
			if got, err := lodgerStay.Call(ctx, lodgers.Get(keys[1]), 0).Get(ctx); got != "b2" || err != nil {
				t.Errorf("after that of a grain with another key it says %s, %v", got, err)
			}
		}
		if err := grains.Unload(ctx, lodgers.Get("a")); err != nil {
			t.Errorf("of a grain that is not active: %v", err)
		}
		if list, err := system.NodeOf(ctx).Grains(ctx, inspect.GrainQuery{Kind: "lodger"}); err != nil || list.Count != 0 {
			t.Errorf("then %d are active, %v", list.Count, err)
		}
		at("c", "c1")
		at("a", "c2") // it stays
		began := time.Now()
		if err := grains.Unload(ctx, lodgers.Get("a")); err != nil || time.Since(began) > 2*time.Second { // of the bubble
			t.Errorf("an idle grain, whose OnDeactivate takes a second, is unloaded in %v, %v", time.Since(began), err)
		}
		ends(1)
		at("a", "a1")

		// From a task on another node, while a turn runs and a call waits.
		long := lodgerStay.Call(ctx, lodgers.Get("a"), 20*time.Second)
		waits := lodgerStay.Call(ctx, lodgers.Get("a"), 0)
		<-time.After(time.Second)
		if _, err := unloadTask.With(raysys.OnNode("b")).Go(ctx, "a").Get(ctx); err != nil {
			t.Error(err)
		}
		ends(1)
		for want, r := range map[string]raysys.Ref[string]{"a2": long, "a3": waits} {
			if got, err := r.Get(ctx); got != want || err != nil {
				t.Errorf("a call from before says %s, %v; want %s", got, err, want)
			}
		}
		at("b", "b1")

		// Several at once, of which one gives up, and calls that come meanwhile.
		long = lodgerStay.Call(ctx, lodgers.Get("a"), 20*time.Second)
		<-time.After(time.Second)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := grains.Unload(ctx, lodgers.Get("a")); err != nil {
					t.Error(err)
				}
			})
		}
		short, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errShort)
		if err := grains.Unload(short, lodgers.Get("a")); !errors.Is(err, errShort) {
			t.Errorf("one that gives up: %v", err)
		}
		cancel()
		late := lodgerStay.With(raysys.OnNode("c")).Call(ctx, lodgers.Get("a"), 0)
		all.Wait()
		if got, err := long.Get(ctx); got != "b2" || err != nil {
			t.Errorf("the long call says %s, %v", got, err)
		}
		ends(1)
		if got, err := late.Get(ctx); got != "c1" || err != nil {
			t.Errorf("a call that came meanwhile, and says c, is on %s, %v", got, err)
		}
	})
}

// TestUnloadOfDead: a grain whose node has died has left with it.
func TestUnloadOfDead(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		workers, ctx := zones(b)
		if _, err := lodgerStay.With(raysys.OnNode("c")).Call(ctx, lodgers.Get("d"), 0).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := workers["c"].Kill(context.Background(), errShort); err != nil {
			t.Fatal(err)
		}
		if err := grains.Unload(ctx, lodgers.Get("d")); err != nil {
			t.Error(err)
		}
		if got, err := lodgerStay.With(raysys.OnNode("a")).Call(ctx, lodgers.Get("d"), 0).Get(ctx); got != "a1" || err != nil {
			t.Errorf("then it says %s, %v", got, err)
		}
	})
}

// TestUnloadAlone: in one process, too; and what cannot be unloaded.
func TestUnloadAlone(t *testing.T) {
	n, err := system.New(system.Config{Name: "alone", Table: table})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	lodgerEnds.Store(0)
	for range 2 {
		if _, err := lodgerStay.Call(ctx, lodgers.Get("a"), 0).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := grains.Unload(ctx, lodgers.Get("a")); err != nil {
			t.Error(err)
		}
	}
	if got := lodgerEnds.Load(); got != 2 {
		t.Errorf("OnDeactivate ran %d times, want 2", got)
	}
	if _, err := lodgerAsks.Call(ctx, lodgers.Get("a")).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
		t.Errorf("of itself: %v", err)
	}
	if err := grains.Unload(ctx, lodgerPool.Get("a")); !errors.Is(err, raysys.ErrBadOption) {
		t.Errorf("of a StatelessWorker: %v", err)
	}
	if err := grains.Unload(ctx, grains.Grain[lodger]{}); !errors.Is(err, raysys.ErrUnknownFunc) {
		t.Errorf("of no kind: %v", err)
	}
	if err := grains.Unload(t.Context(), lodgers.Get("a")); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Errorf("without a node: %v", err)
	}
}
