package taskengine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// far is a driver and a worker whose one CPU is taken by a task that waits for its context.
type far struct {
	d, w  *tasksRuntime
	link  *link
	ctx   context.Context
	wait  tasks.Task0[int]
	began chan struct{}
	ended chan error
}

func newFar(t testing.TB) *far {
	f := &far{began: make(chan struct{}, 100), ended: make(chan error, 100)}
	table := raysys.NewTable()
	f.wait = tasks.Define0In(table, "wait", func(ctx context.Context) (int, error) {
		f.began <- struct{}{}
		<-ctx.Done()
		f.ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	f.d, f.w = newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
	f.link = join(t, f.d, f.w)
	f.ctx = f.d.ctx()
	return f
}

// Cancelling a ref reaches the task where it runs, and those that wait there.
func TestCancelElsewhere(t *testing.T) {
	f := newFar(t)
	running := f.wait.Go(f.ctx)
	nodetest.Arrive(t, f.began, "it runs")
	if !running.Cancel() {
		t.Error("it was settled")
	}
	if _, err := running.Get(f.ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	if err := nodetest.Arrive(t, f.ended, "its context ends"); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("the cause is %v", err)
	}
	nodetest.Eventually(t, "nothing is left", func() bool { return f.w.engine.Load().Inbound == 0 && f.w.engine.FreeCPU() == 1 })
}

// A cancellation that overtakes its task finds it all the same.
func TestCancelOvertakes(t *testing.T) {
	f := newFar(t)
	cancelled, sent := make(chan struct{}, 10), make(chan struct{}, 10)
	f.link.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
		switch k {
		case wire.KindTasks:
			sent <- struct{}{}
			return hold
		case wire.KindTaskCancel:
			cancelled <- struct{}{}
		}
		return deliver
	})
	r := f.wait.Go(f.ctx)
	nodetest.Arrive(t, sent, "it is on its way")
	r.Cancel()
	nodetest.Arrive(t, cancelled, "the cancellation is sent")
	nodetest.Eventually(t, "the cancellation is there", func() bool { return !f.link.ends[0].waiting(wire.Control) })
	f.link.release()
	next := f.wait.Go(f.ctx)
	nodetest.Arrive(t, f.began, "the next one runs")
	next.Cancel()
	nodetest.Arrive(t, f.ended, "the next one ends")
	select {
	case <-f.began:
		t.Error("the cancelled task ran")
	default:
	}
}

// What is cancelled with the context it was submitted under ends elsewhere too, and its children with it.
func TestScopeElsewhere(t *testing.T) {
	f := newFar(t)
	sub, cancel := context.WithCancelCause(f.ctx)
	kept := f.wait.With(raysys.Detached()).Go(sub)
	nodetest.Arrive(t, f.began, "the detached one runs")
	refs := []raysys.Ref[int]{f.wait.Go(sub), f.wait.Go(sub)}
	other := newHost(t, "other", f.d.table, 1)
	join(t, f.d, other)
	nodetest.Arrive(t, f.began, "another runs")
	cancel(errors.New("enough"))
	nodetest.Arrive(t, f.ended, "it ends")
	for _, r := range refs {
		if _, err := nodetest.Get(t, f.ctx, r); !errors.Is(err, raysys.ErrCancelled) {
			t.Errorf("got %v", err)
		}
	}
	if raysys.PhaseOf(kept) != raysys.PhasePending {
		t.Error("the detached one is gone")
	}
	kept.Cancel()
	nodetest.Arrive(t, f.ended, "the detached one ends")
}

// A deadline ends the task where it runs, and the future at home, whoever is first.
func TestDeadlineElsewhere(t *testing.T) {
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFar(t)
			start := time.Now()
			r := f.wait.With(raysys.Deadline(time.Second)).Go(f.ctx)
			queued := f.wait.With(raysys.Deadline(500 * time.Millisecond)).Go(f.ctx)
			if waits {
				if _, err := r.Get(f.ctx); !errors.Is(err, raysys.ErrDeadline) {
					t.Errorf("got %v", err)
				}
			}
			// Where somebody waits, the end that is sent from home may be there before the worker's own clock.
			if err := <-f.ended; !errors.Is(err, context.DeadlineExceeded) && !(waits && errors.Is(err, raysys.ErrCancelled)) {
				t.Errorf("the cause is %v", err)
			}
			if d := time.Since(start); d < time.Second || d >= 2*time.Second {
				t.Errorf("it took %v", d)
			}
			synctest.Wait()
			if _, err := queued.Get(f.ctx); !errors.Is(err, raysys.ErrDeadline) {
				t.Errorf("the queued one: %v", err)
			}
			if _, err := r.Get(f.ctx); !errors.Is(err, raysys.ErrDeadline) {
				t.Errorf("got %v", err)
			}
			if f.d.engine.Load().Queued != 0 || f.w.engine.Load().Inbound != 0 {
				t.Errorf("left: %+v, %+v", f.d.engine.Load(), f.w.engine.Load())
			}
		})
	}
}

// The tasks of a node that is gone are cancelled where they run.
func TestOwnerIsGone(t *testing.T) {
	f := newFar(t)
	f.wait.Go(f.ctx)
	nodetest.Arrive(t, f.began, "it runs")
	f.link.cut(errSevered)
	if err := nodetest.Arrive(t, f.ended, "it ends"); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("the cause is %v", err)
	}
	nodetest.Eventually(t, "nothing is left", func() bool { return f.w.engine.Load().Inbound == 0 })
}

// A driver that closes settles what is in flight.
func TestDriverCloses(t *testing.T) {
	f := newFar(t)
	refs := []raysys.Ref[int]{f.wait.Go(f.ctx), f.wait.Go(f.ctx)}
	nodetest.Arrive(t, f.began, "it runs")
	f.d.close()
	for _, r := range refs {
		if s := raysys.PhaseOf(r); s != raysys.PhaseCancelled {
			t.Errorf("it is %v", s)
		}
		if _, err := r.Get(f.ctx); !errors.Is(err, raysys.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}
