package taskengine_test

import (
	"context"
	"fmt"
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

// TestUncounted: a task for a peer's device is subtracted from what the peer reports to be free from when it was sent until a report
// counts it, whatever the order in which tasks and reports come; not where its frame was not sent, and not by its CPU.
func TestUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		wait := tasks.Define0In(table, "wait", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}).With(raysys.GPU(1))
		var to atomic.Pointer[end]
		d := newHost(t, "driver", table, 0, func(c *taskengine.Config) {
			c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) { return to.Load(), nil }
		})
		w := newHost(t, "worker", table, 4, func(c *taskengine.Config) { c.Resources.GPU = 4 })
		l := join(t, d, w)
		to.Store(l.ends[0])
		var next atomic.Int32
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
			if k == wire.KindTasks {
				return fate(next.Swap(int32(deliver)))
			}
			return deliver
		})
		uncounted := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			var got []raysys.Resources
			d.engine.EachUncounted(l.ends[0], func(r raysys.Resources) { got = append(got, r) })
			for _, r := range got {
				if fmt.Sprint(r) != fmt.Sprint(raysys.Resources{GPU: 1}) {
					t.Errorf("%s: a task takes %+v", when, r)
				}
			}
			if len(got) != want {
				t.Errorf("%s: %d tasks are not counted, want %d", when, len(got), want)
			}
		}
		// report is what the worker reports now; read has the driver learn it.
		report := func() (read func() bool) {
			load, rooms, n, _ := w.engine.Report([]wire.Peer{l.ends[1]})
			frame := loadreport.Append(nil, load, rooms, n[0])
			return func() bool {
				r := wire.NewReader(frame)
				_, _, counted, err := loadreport.Read(&r)
				if err != nil {
					t.Fatal(err)
				}
				return d.engine.Counted(l.ends[0], counted.Tasks)
			}
		}
		uncounted("before the first", 0)
		refs := []raysys.Ref[int]{wait.Go(d.ctx())}
		uncounted("after the first was sent", 1)
		first := report()
		next.Store(int32(refuse))
		refs = append(refs, wait.Go(d.ctx()), wait.Go(d.ctx())) // the peer does not take the frame of one: it is sent again
		<-time.After(time.Second)                               // virtual
		uncounted("with two more, of which one was sent twice", 3)
		if !first() {
			t.Error("the first report counts nothing")
		}
		uncounted("after a report that was made before the last two came", 2)
		next.Store(int32(hold))
		refs = append(refs, wait.Go(d.ctx()))
		if !report()() {
			t.Error("the second report counts nothing")
		}
		uncounted("after a report that counts all but one on its way", 1)
		if report()() {
			t.Error("a report without news counts a task")
		}
		l.release()
		synctest.Wait()
		if _, _, n, news := w.engine.Report([]wire.Peer{l.ends[1]}); n[0].Tasks != 4 || !news {
			t.Errorf("the worker has received %d tasks, news: %v; want 4", n, news)
		}
		if _, _, _, news := w.engine.Report([]wire.Peer{l.ends[1]}); news {
			t.Error("nothing has come since")
		}
		report()()
		uncounted("in the end", 0)
		for _, r := range refs {
			r.Cancel()
		}
	})
}
