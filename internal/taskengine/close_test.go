package taskengine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// Close ends every future, whatever its work was at, with ErrClosed, for all kinds of waiters.
func TestCloseEndsEveryFuture(t *testing.T) {
	table := raysys.NewTable()
	hold, began, _ := blockers(table)
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	nest := tasks.Define0In(table, "nest", func(ctx context.Context) (int, error) {
		began <- struct{}{}
		return hold.Go(ctx).Get(ctx)
	})
	n, err := system.New(system.Config{Table: table, Resources: raysys.Resources{CPU: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := n.Context(context.Background())
	sub, cancel := context.WithCancel(ctx)
	defer cancel()
	running := hold.Go(ctx)
	blocked := nest.Go(ctx)
	for range 3 { // the third is the child
		nodetest.Arrive(t, began, "both CPUs are taken")
	}
	refs := map[string]raysys.Ref[int]{
		"running": running, "detached": hold.With(raysys.Detached()).Go(ctx), "blocked in Get": blocked,
		"queued": one.Go(ctx, 1), "queued under a derived context": one.Go(sub, 1), "shaped": one.With(raysys.CPU(2)).Go(ctx, 1),
		"held": one.On(ctx, running), "held twice": one.On(ctx, one.On(ctx, running)), "mapped": one.Map(ctx, []int{1, 2, 3})[2],
		"with a deadline": one.With(raysys.Deadline(time.Hour)).Go(ctx, 1),
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result, 100)
	for name, r := range refs {
		for how, wait := range map[string]func() error{
			"Get": func() error { _, err := r.Get(ctx); return err },
			"Get on a derived context": func() error {
				sub, cancel := context.WithCancel(ctx)
				defer cancel()
				_, err := r.Get(sub)
				return err
			},
			"Wait":   func() error { _, _, _ = raysys.Wait(ctx, []raysys.Ref[int]{r}, 1); _, err := r.Get(ctx); return err },
			"GetAll": func() error { return raysys.GetAll(ctx, []raysys.Ref[int]{r})[0].Err },
			"AsCompleted": func() error {
				for range raysys.AsCompleted(ctx, []raysys.Ref[int]{r}) {
				}
				_, err := r.Get(ctx)
				return err
			},
		} {
			go func() { results <- result{name + ", " + how, wait()} }()
		}
	}
	// Some of the waiters run what is queued in place; the rest is what Close finds.
	nodetest.Close(t, n)
	for range 5 * len(refs) {
		if r := nodetest.Arrive(t, results, "every waiter returns"); r.err != nil && !errors.Is(r.err, raysys.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", r.name, r.err)
		}
	}
	for _, name := range []string{"running", "detached", "blocked in Get", "held", "held twice"} {
		if _, err := refs[name].Get(ctx); !errors.Is(err, raysys.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	for name, r := range refs {
		if s := raysys.PhaseOf(r); s != raysys.PhaseCancelled && s != raysys.PhaseReady {
			t.Errorf("%s: %v after Close", name, s)
		}
	}
}

// What comes after Close is refused at once.
func TestSubmitAfterClose(t *testing.T) {
	table := raysys.NewTable()
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	n, ctx := nodetest.Node(t, table, 1)
	before := one.Go(ctx, 1)
	nodetest.Want(t, ctx, before, 1)
	nodetest.Close(t, n)
	late := n.Context(context.Background())
	for i, r := range []raysys.Ref[int]{
		one.Go(ctx, 1), one.On(ctx, before), one.Map(ctx, []int{1, 2})[1], one.With(raysys.CPU(0)).Go(ctx, 1),
		one.With(raysys.Detached()).Go(ctx, 1), one.Go(late, 1),
	} {
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrClosed) || !errors.Is(err, context.Canceled) {
			t.Errorf("submission %d: %v, want ErrClosed", i, err)
		}
	}
	if v, err := before.Get(ctx); v != 1 || err != nil {
		t.Errorf("a result from before: %d, %v", v, err)
	}
}

// A task that does not listen to its context holds Close up until Close's own ctx ends, and nobody else.
func TestCloseOfADeafTask(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan struct{}, 1), make(chan struct{})
	deaf := tasks.Define0In(table, "deaf", func(ctx context.Context) (int, error) {
		began <- struct{}{}
		<-open
		return 1, nil
	})
	n, err := system.New(system.Config{Table: table, Resources: raysys.Resources{CPU: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := n.Context(context.Background())
	r := deaf.Go(ctx)
	nodetest.Arrive(t, began, "the task runs")
	waited := async(func() error { _, err := r.Get(ctx); return err })
	grace, cancel := context.WithCancelCause(context.Background())
	closed := async(func() error { return n.Close(grace) })
	if err := nodetest.Arrive(t, waited, "the driver's Get returns"); !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("Get: %v, want ErrClosed", err)
	}
	cancel(errWhy)
	if err := nodetest.Arrive(t, closed, "Close returns"); !errors.Is(err, errWhy) || !strings.Contains(err.Error(), "still run") {
		t.Errorf("Close: %v; want its ctx's cause and what still runs", err)
	}
	close(open)
}

// A Close in the midst of submissions of all kinds leaves no future open.
func TestCloseRacesSubmit(t *testing.T) {
	for range 20 {
		table := raysys.NewTable()
		var nest tasks.Task[int, int]
		one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
		nest = tasks.DefineIn(table, "nest", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return 0, nil
			}
			return nest.Go(ctx, n-1).Get(ctx)
		})
		n, err := system.New(system.Config{Table: table, Resources: raysys.Resources{CPU: 2}, QueueTasks: 10})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var submitted sync.WaitGroup
		for i := range 8 {
			all.Add(1)
			submitted.Add(1)
			go func() {
				defer all.Done()
				ctx := n.Context(context.Background())
				for k := 0; ; k++ {
					var r raysys.Ref[int]
					switch i % 4 {
					case 0:
						r = one.Go(ctx, k)
					case 1:
						r = one.With(raysys.CPU(2)).Go(ctx, k)
					case 2:
						r = nest.Go(ctx, 5)
					case 3:
						r = one.On(ctx, one.Map(ctx, []int{k, k})[1])
					}
					_, err := r.Get(ctx)
					if k == 3 {
						submitted.Done()
					}
					if err != nil {
						if !errors.Is(err, raysys.ErrClosed) {
							t.Errorf("got %v, want ErrClosed", err)
						}
						return
					}
				}
			}()
		}
		submitted.Wait()
		nodetest.Close(t, n)
		all.Wait()
	}
}
