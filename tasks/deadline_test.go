package tasks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// near reports whether got is want, to the two ticks within which the wheel rings.
func near(got, want time.Duration) bool { return got >= want && got <= want+2*time.Millisecond }

// A deadline is kept whether the task is queued, waits for its arguments or runs, and however it is waited for.
func TestDeadline(t *testing.T) {
	looks := map[string]func(ctx context.Context, r raysys.Ref[int]) error{
		"Get": func(ctx context.Context, r raysys.Ref[int]) error { _, err := r.Get(ctx); return err },
		"Wait": func(ctx context.Context, r raysys.Ref[int]) error {
			if _, _, err := raysys.Wait(ctx, []raysys.Ref[int]{r}, 1); err != nil {
				return err
			}
			_, err := r.Get(ctx)
			return err
		},
		"AsCompleted": func(ctx context.Context, r raysys.Ref[int]) (err error) {
			for _, r := range raysys.AsCompleted(ctx, []raysys.Ref[int]{r}) {
				_, err = r.Get(ctx)
			}
			return err
		},
		"GetAll": func(ctx context.Context, r raysys.Ref[int]) error {
			return raysys.GetAll(ctx, []raysys.Ref[int]{r})[0].Err
		},
		"State": func(ctx context.Context, r raysys.Ref[int]) error {
			for raysys.PhaseOf(r) == raysys.PhasePending {
				<-time.After(time.Millisecond)
			}
			_, err := r.Get(ctx)
			return err
		},
	}
	for _, where := range []string{"queued", "held", "running", "shaped"} {
		for how, look := range looks {
			t.Run(where+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					table := raysys.NewTable()
					hold, began, open := blockers(table)
					defer close(open)
					work := tasks.DefineIn(table, "work", func(ctx context.Context, x int) (int, error) {
						<-open // deaf to its context
						return x, nil
					})
					_, ctx := nodetest.Node(t, table, 1)
					opts := []raysys.Option{raysys.Deadline(3 * time.Second)}
					start, arg := time.Now(), raysys.Ready(1)
					switch where {
					case "queued", "shaped":
						hold.Go(ctx)
						<-began
						if where == "shaped" {
							opts = append(opts, raysys.CPU(0.5))
						}
					case "held":
						arg = hold.Go(ctx)
					}
					r := work.With(opts...).On(ctx, arg)
					synctest.Wait()
					err := look(ctx, r)
					if !errors.Is(err, raysys.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want ErrDeadline", err)
					}
					if d := time.Since(start); !near(d, 3*time.Second) {
						t.Errorf("after %v, want 3s", d)
					}
					if s := raysys.PhaseOf(r); s != raysys.PhaseFailed {
						t.Errorf("the task is %v, want failed", s)
					}
				})
			})
		}
	}
}

// A deadline is kept also when nobody waited for it to pass.
func TestDeadlineThatNobodyWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		slow := tasks.DefineIn(table, "slow", func(ctx context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			return 1, nil
		}).With(raysys.Deadline(time.Second))
		_, ctx := nodetest.Node(t, table, 1)
		late, early := slow.Go(ctx, 2*time.Second), slow.Go(ctx, 0)
		<-time.After(10 * time.Second)
		if _, err := late.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("a result that came too late: %v; want ErrDeadline", err)
		}
		if _, err := early.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("a task that could not start in time: %v; want ErrDeadline", err)
		}
	})
}

// The error says after how long, whoever notices first: the task's own context in its function, what begins or ends too late,
// and a second attempt.
func TestDeadlineSaysHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		const limit = 1500 * time.Microsecond // between two ticks of the wheel, which rings after the context has ended
		slow := tasks.DefineIn(table, "slow", func(ctx context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			return 1, context.Cause(ctx)
		}).With(raysys.Deadline(limit))
		again := tasks.DefineIn(table, "again", func(ctx context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			if context.Cause(ctx) == nil {
				return 0, errors.New("once more")
			}
			return 1, context.Cause(ctx)
		}).With(raysys.Deadline(limit), raysys.Retries(3), raysys.RetryIf(func(err error) bool { return !errors.Is(err, raysys.ErrDeadline) }))
		_, ctx := nodetest.Node(t, table, 1)
		for what, submit := range map[string]func() raysys.Ref[int]{
			"its context":      func() raysys.Ref[int] { return slow.Go(ctx, limit+100*time.Microsecond) },
			"a second attempt": func() raysys.Ref[int] { return again.Go(ctx, limit/2+100*time.Microsecond) },
			"nobody": func() raysys.Ref[int] {
				slow.Go(ctx, 2*limit)
				r := slow.Go(ctx, 0)
				<-time.After(10 * limit)
				return r
			},
		} {
			_, err := submit().Get(ctx)
			if !errors.Is(err, raysys.ErrDeadline) || !strings.Contains(err.Error(), "deadline exceeded after 1.5ms (raysys.Deadline sets another)") {
				t.Errorf("%s notices the deadline: %v; want the task's name and after how long", what, err)
			}
		}
	})
}

// The task's context knows the deadline and ends with it, and children inherit the earliest of all, also when their
// parent has returned.
func TestDeadlineIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		type seen struct {
			in  time.Duration
			err error
		}
		ends := make(chan seen, 10)
		child := tasks.Define0In(table, "child", func(ctx context.Context) (int, error) {
			start := time.Now()
			at, ok := ctx.Deadline()
			if !ok {
				ends <- seen{}
				return 0, errors.New("no deadline")
			}
			<-ctx.Done()
			if d := time.Until(at); !near(-d, 0) {
				t.Errorf("the context ended %v before its deadline", d)
			}
			ends <- seen{time.Since(start), context.Cause(ctx)}
			return 0, ctx.Err()
		})
		parent := tasks.DefineIn(table, "parent", func(ctx context.Context, wait bool) (raysys.Handle[int], error) {
			r := child.Go(ctx)
			if wait {
				_, err := r.Get(ctx)
				return r.Handle(), err
			}
			return r.Handle(), nil
		})
		_, ctx := nodetest.Node(t, table, 4)
		check := func(name string, want time.Duration) {
			t.Helper()
			if s := <-ends; !near(s.in, want) || !errors.Is(s.err, context.DeadlineExceeded) {
				t.Errorf("%s: the child's context ended after %v with %v, want %v", name, s.in, s.err, want)
			}
		}
		child.With(raysys.Deadline(time.Second)).Go(ctx)
		check("own", time.Second)
		parent.With(raysys.Deadline(2*time.Second)).Go(ctx, true)
		check("parent's", 2*time.Second)
		parent.With(raysys.Deadline(3*time.Second)).Go(ctx, false)
		check("parent's that has returned", 3*time.Second)
		sub, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		child.Go(sub)
		check("driver's derived context", 4*time.Second)
		sub, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		child.With(raysys.Deadline(time.Hour)).Go(sub)
		check("the earlier of two", 5*time.Second)
		if r, _ := parent.Go(ctx, false).Get(ctx); true {
			if _, err := r.Ref().Get(ctx); err == nil || errors.Is(err, raysys.ErrDeadline) {
				t.Errorf("without any deadline: %v", err)
			}
		}
	})
}

// A context that has expired refuses submissions, and one of a Get leaves the work alone.
func TestExpiredContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		hold, began, open := blockers(table)
		_, ctx := nodetest.Node(t, table, 1)
		r := hold.Go(ctx)
		<-began
		sub, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start := time.Now()
		if _, err := r.Get(sub); !errors.Is(err, raysys.ErrDeadline) || time.Since(start) != time.Second {
			t.Errorf("Get: %v after %v, want ErrDeadline after 1s", err, time.Since(start))
		}
		if s := raysys.PhaseOf(r); s != raysys.PhasePending {
			t.Errorf("the work is %v after the Get, want pending", s)
		}
		if _, err := hold.Go(sub).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("Go on an expired context: %v, want ErrDeadline", err)
		}
		if _, err := raysys.Put(sub, 1).Get(sub); err != nil {
			t.Errorf("what is there can be had on an expired context: %v", err)
		}
		close(open)
		if _, err := r.Get(ctx); err != nil {
			t.Error(err)
		}
	})
}
