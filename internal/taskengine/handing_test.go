package taskengine_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// TestAnswerDoesNotWaitForTheNextTask: a worker that finds more to do behind its answer lets that go first.
func TestAnswerDoesNotWaitForTheNextTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		open := make(chan struct{})
		square := tasks.DefineIn(table, "square", func(_ context.Context, x int) (int, error) { return x * x, nil })
		hold := tasks.Define0In(table, "hold", func(context.Context) (int, error) {
			<-open
			return 1, nil
		})
		d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
		l := join(t, d, w)
		ctx := d.ctx()
		for i := range 10 {
			nodetest.Want(t, ctx, square.Go(ctx, i), i*i) // a node whose tasks are short is sent more than it has CPUs
		}
		long, done := raysys.Ref[int]{}, make(chan error, 1)
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
			if k != wire.KindTaskResult || long != (raysys.Ref[int]{}) {
				return deliver
			}
			// The answer is made, and nothing waits here; a task comes before the worker looks.
			sub := raysys.Branch(ctx, 1)
			long = hold.Go(sub)
			go func() {
				_, err := long.Get(sub)
				done <- err
			}()
			for w.engine.Load().Inbound < 1 { // without the one that is being answered
				runtime.Gosched()
			}
			return deliver
		})
		nodetest.Want(t, ctx, square.Go(ctx, 3), 9) // the bubble would find it hanging
		select {
		case err := <-done:
			t.Error("the long task has ended:", err)
		default:
		}
		close(open)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAnswersGoAtOnce: the answer to a task behind which nothing waits is sent by the goroutine that ran it, in one go.
func TestAnswersGoAtOnce(t *testing.T) {
	for _, shaped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFunctions()
			var to atomic.Pointer[end]
			d := newHost(t, "driver", f.table, 0, func(c *taskengine.Config) {
				c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) { return to.Load(), nil }
			})
			l := join(t, d, newHost(t, "worker", f.table, 2))
			to.Store(l.ends[0])
			ctx := d.ctx()
			square := f.square
			if shaped {
				square = square.With(raysys.CPU(2))
			}
			for i := range 10 {
				synctest.Wait()
				before, corks := l.ends[1].flushes.Load(), 0
				l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
					if k == wire.KindTaskResult {
						l.mu.Lock()
						corks = l.ends[1].corks
						l.mu.Unlock()
					}
					return deliver
				})
				nodetest.Want(t, ctx, square.Go(ctx, i), i*i)
				if n := l.ends[1].flushes.Load() - before; corks != 1 || n != 1 {
					t.Errorf("shaped %v: sent under %d corks, flushed %d times", shaped, corks, n)
				}
			}
		})
	}
}
