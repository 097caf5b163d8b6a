package taskengine_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// sent records the frames of one kind that cross l from now on.
func (l *link) sent(kind wire.Kind) func() [][]byte {
	var mu sync.Mutex
	var frames [][]byte
	l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		if k == kind {
			mu.Lock()
			defer mu.Unlock()
			frames = append(frames, bytes.Clone(p))
		}
		return deliver
	})
	return func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return frames
	}
}

// drain begins to drain the node. The drain ends at the latest when the test does.
func (h *tasksRuntime) drain() <-chan error {
	return async(func() error { return h.engine.Drain(h.t.Context()) })
}

// mustDrain fails the test unless the drain has ended when nothing in the bubble can go on.
func mustDrain(t testing.TB, drained <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-drained:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error("the drain waits for a task that has ended or was given back")
	}
}

// A cancellation names the generation of its slot: one that comes late leaves the next task in that slot alone.
func TestLateCancellationIsOfItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar(t)
		cancels := f.link.sent(wire.KindTaskCancel)
		first := f.wait.Go(f.ctx)
		<-f.began
		first.Cancel()
		<-f.ended
		synctest.Wait()
		if n := len(cancels()); n != 1 {
			t.Fatalf("%d frames with cancellations were sent, want 1", n)
		}
		late := cancels()[0]

		second := f.wait.Go(f.ctx)
		<-f.began
		if err := f.w.engine.HandleCancel(f.link.ends[1], bytes.Clone(late)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case cause := <-f.ended:
			t.Fatalf("the cancellation of a task that had ended stopped the next task in its slot: %v", cause)
		default:
		}
		second.Cancel()
		<-f.ended
		synctest.Wait()
		own := cancels()[1]
		if own[0] != late[0] || bytes.Equal(own, late) {
			t.Errorf("the slots are % x and % x, want one index and two generations: the test tests nothing", late, own)
		}
	})
}

// A task that is given back to its owner is answered once and leaves the count of inbound tasks once.
func TestTaskGivenBackIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar(t)
		running := f.wait.Go(f.ctx)
		<-f.began
		f.d.engine.PeerLoad(f.link.ends[0], loadreport.Load{Free: 1, Mean: time.Microsecond}) // so that the worker is sent more than it runs
		waiting := f.wait.Go(f.ctx)
		synctest.Wait()
		if n := f.w.engine.Load().Inbound; n != 2 {
			t.Fatalf("the worker has %d inbound tasks, want one that runs and one that waits: the test tests nothing", n)
		}
		answers := f.link.sent(wire.KindTaskResult)
		drained := f.w.drain()
		synctest.Wait()
		if n := len(answers()); n != 1 {
			t.Errorf("one task was given back with %d answers, want 1", n)
		}
		if n := f.w.engine.Load().Inbound; n != 1 {
			t.Errorf("the worker counts %d inbound tasks after one of two was given back, want 1", n)
		}
		running.Cancel()
		mustDrain(t, drained)
		if n := f.w.engine.Load().Inbound; n != 0 {
			t.Errorf("the worker counts %d inbound tasks when it is drained, want 0", n)
		}
		waiting.Cancel()
	})
}

// A task that was at a node which is gone is not away any more: a node that drains does not wait for it.
func TestDrainDoesNotWaitForALostPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar(t)
		lost := f.wait.With(raysys.Retries(0)).Go(f.ctx)
		<-f.began
		f.link.cut(errSevered)
		if _, err := nodetest.Get(t, f.ctx, lost); !errors.Is(err, raysys.ErrNodeDead) {
			t.Fatalf("the task at the lost node ended with %v, want ErrNodeDead", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.d.engine.Drain(ctx); err != nil {
			t.Errorf("a task at a lost peer still counts as away: %v", err)
		}
	})
}

// Tasks that ask for other than one CPU leave the count of those that wait when they are given back.
func TestShapedTasksGivenBackAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		began := make(chan struct{}, 10)
		wait := tasks.Define0In(table, "wait", func(ctx context.Context) (int, error) {
			began <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		var to atomic.Pointer[end]
		d := newHost(t, "driver", table, 0, func(c *taskengine.Config) {
			c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) {
				if e := to.Load(); e != nil {
					return e, nil
				}
				return nil, soon{}
			}
		})
		w := newHost(t, "worker", table, 1, func(c *taskengine.Config) { c.Resources.GPU = 1 })
		l := join(t, d, w)
		to.Store(l.ends[0])
		ctx := d.ctx()
		shaped := wait.With(raysys.CPU(0.5), raysys.GPU(1))
		running := shaped.Go(ctx)
		<-began
		waiting := shaped.Go(ctx)
		synctest.Wait()
		if l := w.engine.Load(); l.Inbound != 2 || l.Queued != 1 {
			t.Fatalf("the worker says %+v, want two inbound tasks of which one waits: the test tests nothing", l)
		}
		to.Store(nil)
		drained := w.drain()
		synctest.Wait()
		if l := w.engine.Load(); l.Queued != 0 || l.Inbound != 1 {
			t.Errorf("after the shaped task was given back the worker says %+v, want none that waits and one inbound task", l)
		}
		running.Cancel()
		mustDrain(t, drained)
		waiting.Cancel()
	})
}
