package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// stored is a grain that may be durable.
type stored struct{ N grains.State[int] }

// shedding has a kind for each reason to stay and to go.
type shedding struct {
	table *raysys.Table
	kinds map[string]grains.Kind[stored]
	touch map[string]grains.Act[stored, string]
}

func newShedding() *shedding {
	s := &shedding{table: raysys.NewTable(), kinds: map[string]grains.Kind[stored]{}, touch: map[string]grains.Act[stored, string]{}}
	for name, opts := range map[string][]grains.Option{
		"plain": {grains.IdleAfter(16 * time.Minute)}, "year": {grains.IdleAfter(365 * 24 * time.Hour)}, "durable": {grains.Durable()}, "movable": {grains.IdleAfter(24 * time.Hour), grains.Movable()},
		"kept": {grains.Keep()}, "holder": {grains.Holds(raysys.CPU(0.5))},
	} {
		k := grains.DefineIn[stored](s.table, name, opts...)
		s.kinds[name] = k
		s.touch[name] = grains.Action(k, "touch", func(_ *stored, ctx context.Context, what string) error {
			switch what {
			case "timer":
				_, err := grains.Every(ctx, time.Hour, func(context.Context) error { return nil })
				return err
			case "busy":
				<-time.After(time.Hour)
			}
			return nil
		}).With(raysys.NoDeadline())
	}
	return s
}

func (s *shedding) call(t *testing.T, ctx context.Context, kind, key, what string) {
	t.Helper()
	if _, err := s.touch[kind].Call(ctx, s.kinds[kind].Get(key), what).Get(ctx); err != nil {
		t.Errorf("%s/%s: %v", kind, key, err)
	}
}

// TestUnloadIdle: for want of memory those go that lose nothing, and others that were idle for a while; a line can say why the others stay.
func TestUnloadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShedding()
		n, ctx := nodetest.Start(t, system.Config{Table: s.table, MemoryLimit: -1})
		e := engineOf(n)
		for name := range s.kinds {
			s.call(t, ctx, name, "idle", "")
		}
		s.call(t, ctx, "plain", "timed", "timer")
		pass(3 * time.Minute)
		s.call(t, ctx, "plain", "fresh", "")
		s.call(t, ctx, "durable", "fresh", "")
		busy := s.touch["durable"].Call(ctx, s.kinds["durable"].Get("busy"), "busy")
		synctest.Wait()

		gone, stays := grainengine.UnloadIdle(e, 1)
		synctest.Wait()
		want := map[string]map[string]int{
			"plain": {"with timers": 1, "used within 1m0s": 1}, "year": {"used within 547h30m0s": 1}, "durable": {"in a turn": 1},
			"kept": {"kept active": 1}, "holder": {"with resources": 1},
		}
		if d := cmp.Diff(want, stays); d != "" || gone != 4 {
			t.Errorf("%d went, want 4; those that stay: %s", gone, d)
		}
		if p, d := e.Activations("plain"), e.Activations("durable"); p != 2 || d != 1 {
			t.Errorf("%d of plain and %d of durable are active, want 2 and 1", p, d)
		}
		if again, of := grainengine.Wanted(e); again != 0 || of != 4 {
			t.Errorf("%d of %d were called again", again, of)
		}
		s.call(t, ctx, "durable", "idle", "")
		s.call(t, ctx, "durable", "another", "")
		if again, of := grainengine.Wanted(e); again != 1 || of != 4 {
			t.Errorf("%d of %d were called again, want 1 of 4", again, of)
		}
		pass(40 * time.Second)
		if again, of := grainengine.Wanted(e); again != 1 || of != 4 {
			t.Errorf("40 s later %d of %d were called again", again, of)
		}
		pass(60 * time.Second)
		if again, of := grainengine.Wanted(e); again != 0 || of != 0 {
			t.Errorf("100 s later %d of %d are remembered", again, of)
		}
		if _, err := busy.Get(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestUnloadsLongestIdleFirst: a share goes, those first that were idle for longest, whatever their kinds.
func TestUnloadsLongestIdleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShedding()
		n, ctx := nodetest.Start(t, system.Config{Table: s.table, MemoryLimit: -1})
		for i := range 10 {
			s.call(t, ctx, "plain", fmt.Sprint(i), "")
			pass(90 * time.Second)
		}
		gone, _ := grainengine.UnloadIdle(engineOf(n), 0.25)
		synctest.Wait()
		var left []string
		grainengine.EachActive(engineOf(n), "plain", func(a grainengine.Active) { left = append(left, a.ID.Key) })
		for _, key := range left {
			if key < "3" {
				t.Errorf("%s stays, of %v", key, left)
			}
		}
		if gone != 3 || len(left) != 7 {
			t.Errorf("%d went, and %d stay; want 3 and 7", gone, len(left))
		}
	})
}

// TestUnloadsWhatIsInUseLast: of a durable kind with a long idle time those go first that were not called since the last
// round, though their idle clock stands.
func TestUnloadsWhatIsInUseLast(t *testing.T) {
	s := newShedding()
	n, ctx := nodetest.Start(t, system.Config{Table: s.table, MemoryLimit: -1})
	call := func(from, to int) {
		for i := from; i < to; i++ {
			s.call(t, ctx, "durable", fmt.Sprint(i), "")
		}
	}
	call(0, 40)
	for _, share := range []float64{0, 0.3, 0.3} {
		grainengine.UnloadIdle(engineOf(n), share)
		call(0, 10)
	}
	if again, gone := grainengine.Wanted(engineOf(n)); gone < 20 || again > 1 {
		t.Errorf("%d of %d that went were called again: those in use went first", again, gone)
	}
}

// TestFullEngine: an engine that is full starts no grain, says why, and serves those that are active.
func TestFullEngine(t *testing.T) {
	why := fmt.Errorf("%w: no memory", raysys.ErrOverloaded)
	t.Run("alone", func(t *testing.T) {
		s := newShedding()
		n, ctx := nodetest.Start(t, system.Config{Table: s.table})
		e := engineOf(n)
		s.call(t, ctx, "plain", "old", "")
		grainengine.Refuse(e, why)
		s.call(t, ctx, "plain", "old", "")
		if _, err := s.touch["plain"].Call(ctx, s.kinds["plain"].Get("new"), "").Get(ctx); !errors.Is(err, raysys.ErrOverloaded) || !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		if n := grainengine.Refused(e); n != 1 {
			t.Errorf("%d were refused, want 1", n)
		}
		grainengine.Refuse(e, nil)
		s.call(t, ctx, "plain", "new", "")
	})
	t.Run("cluster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[cell](tb, "cell")
			touch := grains.Action0(k, "touch", func(*cell, context.Context) error { return nil })
			net := newNet(t, tb)
			nodes := []*fakeNode{net.add("a"), net.add("b")}
			call := func(n *fakeNode, key string) error {
				_, err := touch.Call(n.context(), k.Get(key)).Get(n.context())
				return err
			}
			for i, n := range nodes {
				if err := call(n, fmt.Sprint("old", i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range nodes {
				grainengine.Refuse(n.engine, why)
			}
			for i, n := range nodes {
				for j := range nodes {
					if err := call(n, fmt.Sprint("old", j)); err != nil {
						t.Errorf("an active one, from %s: %v", n.name, err)
					}
				}
				if err := call(n, fmt.Sprint("new", i)); !errors.Is(err, raysys.ErrOverloaded) {
					t.Errorf("a new one, from %s: %v", n.name, err)
				}
			}
			for _, n := range nodes {
				grainengine.Refuse(n.engine, nil)
			}
			for _, n := range nodes {
				for j := range nodes {
					if err := call(n, fmt.Sprint("new", j)); err != nil {
						t.Errorf("once there is room, from %s: %v", n.name, err)
					}
				}
			}
		})
	})
}
