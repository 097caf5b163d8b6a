package taskengine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// TestLineWait: a node reports for how long work waits in its line, by the means of the functions of what runs and waits there, which
// the mean of its plain tasks leaves out. Of a function of which no task has returned it is known how long the first has run. What a node
// has sent since adds to what its peer has reported.
func TestLineWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		lasts := func(name string) tasks.Task[time.Duration, int] {
			return tasks.DefineIn(table, name, func(ctx context.Context, d time.Duration) (int, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
		}
		known, unknown := lasts("known"), lasts("unknown")
		device, fresh := known.With(raysys.GPU(1)), unknown.With(raysys.GPU(1))
		var to atomic.Pointer[end]
		d := newHost(t, "driver", table, 0, func(c *taskengine.Config) {
			c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) { return to.Load(), nil }
		})
		w := newHost(t, "worker", table, 4, func(c *taskengine.Config) { c.Resources.GPU = 1 })
		l := join(t, d, w)
		to.Store(l.ends[0])
		var running []raysys.Ref[int]
		begin := func(task tasks.Task[time.Duration, int], d2 time.Duration) {
			running = append(running, task.Go(d.ctx(), d2))
		}
		done := func() {
			t.Helper()
			for _, r := range running {
				if _, err := r.Get(d.ctx()); err != nil {
					t.Fatal(err)
				}
			}
			running = nil
		}
		near := func(what string, got, want time.Duration) {
			t.Helper()
			if got > want+want/100 || got < want-want/8 {
				t.Errorf("%s: %v, want about %v", what, got, want)
			}
		}
		report := func() loadreport.Load {
			synctest.Wait()
			load, _, _, _ := w.engine.Report([]wire.Peer{l.ends[1]})
			d.engine.PeerLoad(l.ends[0], load)
			return load
		}
		for range 30 {
			begin(known, time.Millisecond)
			done()
		}
		begin(device, 10*time.Second)
		done()
		load := report()
		near("the mean of plain tasks", load.Mean, time.Millisecond)
		near("nothing waits or runs", load.Line, 0)
		for range 3 {
			begin(device, 10*time.Second)
		}
		load = report()
		near("the mean of plain tasks, while others run", load.Mean, time.Millisecond)
		near("one is half done, and two wait", load.Line, 25*time.Second)
		begin(device, 10*time.Second)
		synctest.Wait()
		there, _, _ := d.engine.LoadOf(l.ends[0])
		near("the peer has one more", there.Line, 25*time.Second*4/3)
		near("the node has one more", w.engine.Load().Line, 25*time.Second*4/3)
		done()
		begin(fresh, 20*time.Second)
		begin(fresh, 20*time.Second)
		<-time.After(8 * time.Second)
		near("of a new function one has run for 8 s, and another waits", report().Line, 16*time.Second)
		done()
		begin(device, 30*time.Second)
		<-time.After(20 * time.Second)
		near("one has run for longer than the mean", report().Line, 15*time.Second)
		done()
	})
}

// TestLineWaitOfWaiting: the time for which a task holds CPUs alone and waits says nothing of them; for which it holds a device it does.
func TestLineWaitOfWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		needs raysys.Option
		want  time.Duration // of one that has run for a moment
	}{
		"CPUs":     {raysys.CPU(2), 0},
		"a device": {raysys.GPU(1), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := raysys.NewTable()
				sleeps := tasks.DefineIn(table, "sleeps", func(_ context.Context, d time.Duration) (int, error) { <-time.After(d); return 0, nil })
				waits := tasks.DefineIn(table, "waits", func(ctx context.Context, d time.Duration) (int, error) {
					return sleeps.With(raysys.CPU(0)).Go(ctx, d).Get(ctx)
				}).With(c.needs)
				w := newHost(t, "worker", table, 2, func(c *taskengine.Config) { c.Resources.GPU = 1 })
				join(t, newHost(t, "driver", table, 0), w)
				for range 2 {
					if _, err := waits.Go(w.ctx(), 10*time.Second).Get(w.ctx()); err != nil {
						t.Fatal(err)
					}
				}
				r := waits.Go(w.ctx(), time.Second)
				synctest.Wait()
				load, _, _, _ := w.engine.Report(nil)
				if load.Line > c.want || load.Line < c.want-c.want/8 {
					t.Errorf("the line takes %v, want about %v", load.Line, c.want)
				}
				if _, err := r.Get(w.ctx()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
