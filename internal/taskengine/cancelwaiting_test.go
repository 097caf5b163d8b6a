package taskengine_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// burden is an argument whose bytes a test watches.
type burden struct {
	In   raysys.Ref[int]
	More []raysys.Ref[int]
	Data []byte
}

// burdened are a task that waits until open, and tasks that wait for it.
type burdened struct {
	open   chan struct{}
	gate   tasks.Task[int, int]
	add    tasks.Task[burden, int]
	freed  atomic.Int64
	burden int64
}

func newBurdened(table *raysys.Table) *burdened {
	b := &burdened{open: make(chan struct{})}
	b.gate = tasks.DefineIn(table, "gate", func(ctx context.Context, n int) (int, error) {
		select {
		case <-b.open:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	b.add = tasks.DefineIn(table, "add", func(ctx context.Context, l burden) (int, error) {
		n, err := l.In.Get(ctx)
		return n + len(l.Data), err
	})
	return b
}

// load returns an argument, and counts when it is collected.
func (b *burdened) load(in raysys.Ref[int], more ...raysys.Ref[int]) burden {
	data := make([]byte, 4<<10)
	runtime.AddCleanup(&data[0], func(int) { b.freed.Add(1) }, 0)
	b.burden++
	return burden{In: in, More: more, Data: data}
}

// TestCancelledWaitingIsFreed: tasks that are cancelled while they wait for an input give up their arguments and their records at once,
// not when the input settles.
func TestCancelledWaitingIsFreed(t *testing.T) {
	table := raysys.NewTable()
	b := newBurdened(table)
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 2}})
	in, two := b.gate.Go(ctx, 1), b.gate.Go(ctx, 2)
	func() {
		list := make([]raysys.Ref[int], 1000)
		for i := range list {
			if i%2 == 0 {
				list[i] = b.add.Go(ctx, b.load(in))
			} else {
				list[i] = b.add.Go(ctx, b.load(in, two))
			}
		}
		for _, r := range list {
			if !r.Cancel() {
				t.Error("a task that waits for an input had settled")
			}
		}
		for _, r := range list {
			nodetest.Fails(t, ctx, r, raysys.ErrCancelled)
		}
	}()
	nodetest.EventuallyGC(t, "the arguments of cancelled tasks are collected", func() bool { return b.freed.Load() == b.burden })
	close(b.open)
	nodetest.Want(t, ctx, in, 1)
	nodetest.Want(t, ctx, b.add.Go(ctx, b.load(in, two)), 1+4<<10)
}

// TestCancelWhileInputsArrive: a task that is cancelled at the moment when its inputs arrive settles once, and others run.
func TestCancelWhileInputsArrive(t *testing.T) {
	table := raysys.NewTable()
	b := newBurdened(table)
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 2}})
	in, two := b.gate.Go(ctx, 1), b.gate.Go(ctx, 2)
	func() {
		list := make([]raysys.Ref[int], 400)
		for i := range list {
			list[i] = b.add.Go(ctx, b.load(in, two))
		}
		var all sync.WaitGroup
		for part := range 4 {
			all.Go(func() {
				for i := part; i < len(list); i += 4 {
					if i%3 > 0 {
						list[i].Cancel()
					}
				}
			})
		}
		close(b.open)
		all.Wait()
		for i, r := range list {
			switch v, err := nodetest.Get(t, ctx, r); {
			case err == nil && v == 1+4<<10:
			case i%3 > 0 && errors.Is(err, raysys.ErrCancelled):
			default:
				t.Errorf("task %d ends with %d, %v", i, v, err)
			}
		}
	}()
	nodetest.EventuallyGC(t, "all arguments are collected", func() bool { return b.freed.Load() == b.burden })
}
