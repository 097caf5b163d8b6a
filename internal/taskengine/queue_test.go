package taskengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// small is a node of one CPU whose queue holds tasks tasks and bytes bytes, and whose CPU is taken until open is
// closed.
type small struct {
	node *system.Node
	ctx  context.Context
	hold tasks.Task0[int]
	one  tasks.Task[int, int]
	size tasks.Task[[]byte, int]
	open chan struct{}
	long raysys.Ref[int]
}

func smallNode(t *testing.T, queueTasks int, queueBytes int64) *small {
	t.Helper()
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	s := &small{hold: hold, open: open}
	s.one = tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	s.size = tasks.DefineIn(table, "size", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
	s.node, s.ctx = nodetest.Start(t, system.Config{
		Table: table, Resources: raysys.Resources{CPU: 1}, QueueTasks: queueTasks, QueueBytes: queueBytes,
	})
	s.long = hold.Go(s.ctx)
	nodetest.Arrive(t, began, "the CPU is taken")
	return s
}

// async calls f on a goroutine of its own and gives its result.
func async[T any](f func() T) <-chan T {
	ch := make(chan T, 1)
	go func() { ch <- f() }()
	return ch
}

// A full queue blocks a driver's Go until there is room, however that comes about.
func TestFullQueueBlocksADriver(t *testing.T) {
	forms := map[string]func(s *small) raysys.Ref[int]{
		"Go":      func(s *small) raysys.Ref[int] { return s.one.Go(s.ctx, 7) },
		"Map":     func(s *small) raysys.Ref[int] { return s.one.Map(s.ctx, []int{7})[0] },
		"shaped":  func(s *small) raysys.Ref[int] { return s.one.With(raysys.CPU(0.5)).Go(s.ctx, 7) },
		"On":      func(s *small) raysys.Ref[int] { return s.one.On(s.ctx, raysys.Ready(7)) },
		"held":    func(s *small) raysys.Ref[int] { return s.one.On(s.ctx, s.long) },
		"derived": func(s *small) raysys.Ref[int] { return s.one.Go(raysys.Branch(s.ctx, 1), 7) },
	}
	for filler, fill := range forms {
		for form, next := range forms {
			for _, relief := range []string{"start", "cancel"} {
				t.Run(fmt.Sprintf("%s, then %s, %s", filler, form, relief), func(t *testing.T) {
					s := smallNode(t, 1, 0)
					first := fill(s)
					second := async(func() raysys.Ref[int] { return next(s) })
					nodetest.Eventually(t, "the driver blocks", func() bool { return engineOf(s.node).Waiting() == 1 })
					if relief == "cancel" {
						first.Cancel()
					}
					close(s.open)
					r := nodetest.Arrive(t, second, "Go returns when there is room")
					if v, err := nodetest.Get(t, s.ctx, r); err != nil || v != 7 && form != "held" {
						t.Errorf("got %d, %v", v, err)
					}
				})
			}
		}
	}
}

// The error of a Go that gave up says how full the queue is and what to do.
func TestFullQueueError(t *testing.T) {
	s := smallNode(t, 1, 0)
	defer close(s.open)
	s.one.Go(s.ctx, 1)
	ctx, cancel := context.WithCancelCause(context.Background())
	ctx = s.node.Context(ctx)
	failed := async(func() error { _, err := s.one.Go(ctx, 1).Get(s.ctx); return err })
	nodetest.Eventually(t, "the submitter blocks", func() bool { return engineOf(s.node).Waiting() == 1 })
	cancel(errWhy)
	err := nodetest.Arrive(t, failed, "Go gives up")
	if !errors.Is(err, raysys.ErrOverloaded) || !errors.Is(err, errWhy) || !strings.Contains(err.Error(), "submit task one") {
		t.Errorf("got %v; want ErrOverloaded with its cause", err)
	}
}

// A submit from inside a task never blocks: the child runs in place, with all its attempts, or is refused.
func TestFullQueueInsideATask(t *testing.T) {
	table := raysys.NewTable()
	one := tasks.DefineIn(table, "one", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
	tries := 0
	again := tasks.DefineIn(table, "again", func(context.Context, []byte) (int, error) {
		tries++
		if tries < 3 {
			return 0, errBoom
		}
		return tries, nil
	}).With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errBoom) }), raysys.Backoff(0, 0))
	parent := tasks.Define0In(table, "parent", func(ctx context.Context) (int, error) {
		queued := one.Go(ctx, []byte("a")) // takes the one place
		for i := range 5 {
			r := one.Go(ctx, make([]byte, i))
			if s := raysys.PhaseOf(r); s != raysys.PhaseReady {
				t.Errorf("child %d is %v right after Go, want ready: it ran in place", i, s)
			}
		}
		retried := again.Go(ctx, []byte("ab"))
		for name, r := range map[string]raysys.Ref[int]{
			"by reference": one.On(ctx, raysys.Ready([]byte("a"))), "shaped": one.With(raysys.CPU(0)).Go(ctx, nil),
			"with a deadline": one.With(raysys.Deadline(nodetest.Patience)).Go(ctx, nil),
		} {
			if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrOverloaded) || !raysys.Retriable(err) {
				t.Errorf("%s: %v, want ErrOverloaded", name, err)
			}
		}
		if v, err := queued.Get(ctx); v != 1 || err != nil {
			t.Errorf("the queued child: %d, %v", v, err)
		}
		return retried.Get(ctx)
	})
	n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}, QueueTasks: 1})
	nodetest.Want(t, ctx, parent.Go(ctx), 3)
	nodetest.Eventually(t, "the accounts are even", func() bool { return engineOf(n).Queued() == 0 && engineOf(n).QueuedBytes() == 0 })
}

// The queue is bounded by the bytes of its arguments too, and each byte is counted once on and once off.
func TestByteBudget(t *testing.T) {
	s := smallNode(t, 0, 100)
	refs := []raysys.Ref[int]{s.size.Go(s.ctx, make([]byte, 60)), s.size.On(s.ctx, raysys.Ready(make([]byte, 61)))}
	if n := engineOf(s.node).QueuedBytes(); n < 121 {
		t.Errorf("%d bytes are counted, want 121 and their headers", n)
	}
	next := async(func() raysys.Ref[int] { return s.size.Go(s.ctx, make([]byte, 62)) })
	nodetest.Eventually(t, "the driver blocks", func() bool { return engineOf(s.node).Waiting() == 1 })
	refs[0].Cancel()
	refs[1].Cancel()
	r := nodetest.Arrive(t, next, "cancelled tasks give their bytes back at once")
	close(s.open)
	nodetest.Want(t, s.ctx, r, 62)
	for i := range 50 {
		refs := s.size.Map(s.ctx, [][]byte{make([]byte, i), make([]byte, 2*i)})
		refs = append(refs, s.size.On(s.ctx, raysys.Put(s.ctx, make([]byte, i))), s.size.With(raysys.CPU(0)).Go(s.ctx, make([]byte, 90)))
		refs[i%4].Cancel()
		for _, r := range refs {
			r.Get(s.ctx)
		}
	}
	nodetest.Eventually(t, "the accounts are even", func() bool { return engineOf(s.node).QueuedBytes() == 0 })
}
