package tasks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

var errOther = errors.New("other")

func isBoom(err error) bool { return errors.Is(err, errBoom) }

// flaky defines a task that fails with the errors given, one per attempt, and then gives its number of attempts.
func flaky(table *raysys.Table, errs ...error) (tasks.Task0[int], func() int) {
	n := 0
	return tasks.Define0In(table, "flaky", func(context.Context) (int, error) {
		n++
		if n <= len(errs) {
			if errs[n-1] == raysys.ErrPanic {
				panic("flaky")
			}
			return 0, errs[n-1]
		}
		return n, nil
	}), func() int { return n }
}

func TestRetries(t *testing.T) {
	b, o, p := errBoom, errOther, error(raysys.ErrPanic)
	on := raysys.RetryIf(isBoom)
	for _, c := range []struct {
		name     string
		errs     []error
		opts     []raysys.Option
		attempts int
		err      error
	}{
		{"an error is not retried unless asked", []error{b}, nil, 1, b},
		{"asked", []error{b}, []raysys.Option{on}, 2, nil},
		{"three retries by default", []error{b, b, b}, []raysys.Option{on}, 4, nil},
		{"and no more", []error{b, b, b, b}, []raysys.Option{on}, 4, b},
		{"more when asked", []error{b, b, b, b, b}, []raysys.Option{on, raysys.Retries(5)}, 6, nil},
		{"none when asked", []error{b}, []raysys.Option{on, raysys.Retries(0)}, 1, b},
		{"not for other errors", []error{b, o}, []raysys.Option{on}, 2, o},
		{"a panic reaches RetryIf", []error{p}, []raysys.Option{raysys.RetryIf(func(err error) bool { return errors.Is(err, raysys.ErrPanic) })}, 2, nil},
		{"a panic is no other error", []error{p}, []raysys.Option{on}, 1, p},
		{"a RetryIf that panics accepts nothing", []error{b}, []raysys.Option{raysys.RetryIf(func(error) bool { panic("x") })}, 1, b},
		{"with a shape", []error{b, b}, []raysys.Option{on, raysys.CPU(0.5)}, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := raysys.NewTable()
				task, ran := flaky(table, c.errs...)
				if c.opts != nil {
					task = task.With(c.opts...)
				}
				n, ctx := nodetest.Node(t, table, 1)
				r := task.Go(ctx)
				v, err := r.Get(ctx)
				if !errors.Is(err, c.err) || ran() != c.attempts || err == nil && v != c.attempts {
					t.Errorf("got %d, %v after %d attempts; want %v after %d", v, err, ran(), c.err, c.attempts)
				}
				var te *raysys.TaskError
				if c.err != nil && (!errors.As(err, &te) || te.Attempt != c.attempts) {
					t.Errorf("the error names another attempt than %d: %+v", c.attempts, te)
				}
				synctest.Wait()
				if free := engineOf(n).FreeCPU(); free != 1 {
					t.Errorf("%v CPUs are free, want 1", free)
				}
			})
		})
	}
}

// The pause before retry n is lo*2^(n-1), at most hi, less up to half; the CPU is free meanwhile.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		var at []time.Time
		flaky := tasks.Define0In(table, "flaky", func(context.Context) (int, error) {
			at = append(at, time.Now())
			if len(at) < 7 {
				return 0, errBoom
			}
			return 0, nil
		}).With(raysys.RetryIf(isBoom), raysys.Retries(10), raysys.Backoff(100*time.Millisecond, time.Second))
		n, ctx := nodetest.Node(t, table, 1)
		r := flaky.Go(ctx)
		synctest.Wait()
		if free := engineOf(n).FreeCPU(); free != 1 || raysys.PhaseOf(r) != raysys.PhasePending {
			t.Errorf("in the pause %v CPUs are free and the task is %v", free, raysys.PhaseOf(r))
		}
		if _, err := r.Get(ctx); err != nil {
			t.Fatal(err)
		}
		hi := 100 * time.Millisecond
		for i := 1; i < len(at); i++ {
			pause := at[i].Sub(at[i-1])
			if pause < hi/2 || pause > hi+2*time.Millisecond { // the wheel rings within two of its ticks
				t.Errorf("pause %d is %v, want %v to %v", i, pause, hi/2, hi)
			}
			hi = min(2*hi, time.Second)
		}
	})
}

// A retried task's children get the ids of the first attempt's, and those that still run are cancelled.
func TestRetriedParentsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		child := tasks.DefineIn(table, "child", func(ctx context.Context, first bool) (string, error) {
			if first {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "", nil
		})
		var ids [][]string
		var values []uint64
		parent := tasks.Define0In(table, "parent", func(ctx context.Context) (int, error) {
			first := len(ids) == 0
			sub, cancel := context.WithCancel(ctx)
			defer cancel()
			refs := []raysys.Ref[string]{child.Go(ctx, first), child.Go(sub, first), child.Go(raysys.Branch(ctx, 4), first)}
			refs = append(refs, child.Map(ctx, []bool{first, first})...)
			obj := raysys.Put(ctx, 1)
			var all []string
			for _, r := range refs {
				all = append(all, r.ID().String())
			}
			ids = append(ids, append(all, obj.ID().String()))
			values = append(values, raysys.Rand(ctx).Uint64(), raysys.Rand(raysys.Branch(ctx, 5)).Uint64())
			if n := raysys.Attempt(ctx); n != len(ids) || n != raysys.Attempt(sub) {
				t.Errorf("Attempt is %d in attempt %d", n, len(ids))
			}
			if first {
				return 0, errBoom
			}
			for _, o := range raysys.GetAll(ctx, refs) {
				if o.Err != nil {
					return 0, o.Err
				}
			}
			return 1, nil
		}).With(raysys.RetryIf(isBoom))
		n, ctx := nodetest.Node(t, table, 8)
		if v, err := parent.Go(ctx).Get(ctx); v != 1 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		synctest.Wait()
		if free := engineOf(n).FreeCPU(); free != 8 {
			t.Errorf("%v CPUs are free, want 8: children of the first attempt run on", free)
		}
		if len(ids) != 2 {
			t.Fatalf("%d attempts, want 2", len(ids))
		}
		if diff := cmp.Diff(ids[0], ids[1]); diff != "" {
			t.Errorf("the second attempt's ids differ:\n%s", diff)
		}
		if values[0] == values[2] || values[1] == values[3] {
			t.Error("the second attempt, after a failure, draws the numbers of the first")
		}
		distinct := map[string]bool{}
		for _, id := range ids[0] {
			distinct[id] = true
		}
		if len(distinct) != len(ids[0]) {
			t.Errorf("the ids are not distinct: %v", ids[0])
		}
	})
}

// Cancel, deadline and Close end a task that pauses between attempts.
func TestEndInThePause(t *testing.T) {
	for name, end := range map[string]error{"cancel": raysys.ErrCancelled, "deadline": raysys.ErrDeadline, "close": raysys.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := raysys.NewTable()
				task, ran := flaky(table, errBoom, errBoom)
				task = task.With(raysys.RetryIf(isBoom), raysys.Backoff(time.Minute, time.Minute), raysys.Deadline(10*time.Second))
				if name == "close" {
					task = task.With(raysys.RetryIf(isBoom), raysys.Backoff(time.Minute, time.Minute))
				}
				n, ctx := nodetest.Node(t, table, 1)
				r := task.Go(ctx)
				waited := make(chan error, 1)
				go func() {
					_, err := r.Get(ctx)
					waited <- err
				}()
				synctest.Wait()
				switch name {
				case "cancel":
					r.Cancel()
				case "close":
					if err := n.Close(ctx); err != nil {
						t.Error(err)
					}
				}
				if err := <-waited; !errors.Is(err, end) {
					t.Errorf("got %v, want %v", err, end)
				}
				<-time.After(2 * time.Minute)
				if ran() != 1 {
					t.Errorf("%d attempts, want 1", ran())
				}
			})
		})
	}
}
