package taskengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// A task whose node goes is tried elsewhere under its id, as its next attempt, up to its number of retries.
func TestLostTasksAreRetried(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    []raysys.Option
		losses  int
		attempt int
	}{
		{"three times by default", nil, 3, 4},
		{"and no more", nil, 4, 0},
		{"as often as asked", []raysys.Option{raysys.Retries(5)}, 5, 6},
		{"not at all", []raysys.Option{raysys.Retries(0)}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type told struct {
					ID      string
					Attempt int
				}
				table := raysys.NewTable()
				began := make(chan struct{}, 10)
				var open atomic.Bool
				wait := tasks.Define0In(table, "wait", func(ctx context.Context) (told, error) {
					tu, _, _ := core.TurnOf(ctx)
					began <- struct{}{}
					if !open.Load() {
						<-ctx.Done()
						return told{}, ctx.Err()
					}
					return told{tu.ID().String(), tu.Attempt()}, nil
				})
				d := newHost(t, "driver", table, 0)
				ctx := d.ctx()
				r := wait.With(c.opts...).Go(ctx)
				for i := range c.losses {
					w := newHost(t, fmt.Sprintf("worker%d", i), table, 1)
					l := join(t, d, w)
					<-began
					l.cut(errSevered)
				}
				open.Store(true)
				join(t, d, newHost(t, "last", table, 1))
				v, err := nodetest.Get(t, ctx, r)
				if c.attempt > 0 {
					if err != nil || v != (told{r.ID().String(), c.attempt}) {
						t.Errorf("got %+v, %v; want attempt %d", v, err, c.attempt)
					}
					return
				}
				last := raysys.NodeID(fmt.Sprintf("worker%d", c.losses-1))
				var te *raysys.TaskError
				if !errors.Is(err, raysys.ErrNodeDead) || !errors.Is(err, raysys.ErrOutcomeUnknown) || !errors.As(err, &te) || te.Attempt != c.losses || te.Node != last || te.Function != "wait" ||
					!strings.Contains(err.Error(), string(last)) || errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A node that closes gives back what it has not begun, and what it has begun is tried again: none of it fails.
func TestWorkerCloses(t *testing.T) {
	table := raysys.NewTable()
	began := make(chan struct{}, 100)
	var open atomic.Bool
	wait := tasks.Define0In(table, "wait", func(ctx context.Context) (int, error) {
		done := open.Load()
		began <- struct{}{}
		if done {
			tu, _, _ := core.TurnOf(ctx)
			return tu.Attempt(), nil
		}
		<-ctx.Done()
		return 0, fmt.Errorf("it is over: %w", ctx.Err())
	})
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 2)
	l := join(t, d, w)
	ctx := d.ctx()
	d.engine.PeerLoad(l.ends[0], loadreport.Load{Free: 2, Mean: time.Microsecond}) // so that the worker is sent many at a time
	var refs []raysys.Ref[int]
	for range 10 {
		refs = append(refs, wait.Go(ctx))
	}
	nodetest.Arrive(t, began, "it runs")
	nodetest.Arrive(t, began, "it runs")
	open.Store(true)
	w.close()
	join(t, d, newHost(t, "other", table, 2))
	first := 0
	for _, r := range refs {
		switch v, err := nodetest.Get(t, ctx, r); {
		case err != nil:
			t.Error(err)
		case v == 1:
			first++
		}
	}
	if first != 8 {
		t.Errorf("%d tasks ran at their first attempt, want the 8 that had not begun", first)
	}
}

// An answer that comes twice, or after the task was given to another node, resolves nothing.
func TestRepeatedAnswers(t *testing.T) {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2)
	l := join(t, d, w)
	l.rule(func(from raysys.NodeID, c wire.Class, k wire.Kind, p []byte) fate {
		if k == wire.KindTaskResult {
			return twice
		}
		return deliver
	})
	ctx := d.ctx()
	for round := range 20 {
		refs := f.square.Map(ctx, []int{1, 2, 3, 4, 5, 6, 7, 8, 9})
		fails := []raysys.Ref[int]{f.fail.Go(ctx, "x"), f.fail.Go(ctx, "y")}
		for i, r := range refs {
			if v, err := nodetest.Get(t, ctx, r); v != (i+1)*(i+1) || err != nil {
				t.Errorf("round %d: got %d, %v", round, v, err)
			}
		}
		for _, r := range fails {
			if _, err := nodetest.Get(t, ctx, r); err == nil {
				t.Error("no error")
			}
		}
	}
}

// When a link takes no more for a while, tasks wait at home and answers at the worker, and none is lost.
func TestOverloadedLink(t *testing.T) {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2)
	l := join(t, d, w)
	var n atomic.Int64
	l.rule(func(from raysys.NodeID, c wire.Class, k wire.Kind, p []byte) fate {
		if n.Add(1)%3 != 0 {
			return refuse
		}
		return deliver
	})
	ctx := d.ctx()
	var refs []raysys.Ref[int]
	var blobs []raysys.Ref[[]byte]
	for i := range 100 {
		refs = append(refs, f.square.Go(ctx, i))
		if i%10 == 0 {
			blobs = append(blobs, f.blob.Go(ctx, make([]byte, 100<<10)))
		}
	}
	for i, r := range refs {
		nodetest.Want(t, ctx, r, i*i)
	}
	for _, r := range blobs {
		if b, err := nodetest.Get(t, ctx, r); len(b) != 100<<10 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

// 10,000 tasks over five workers, of which one dies and comes back all the time: every future resolves, rightly.
func TestTenThousandTasksWithDeaths(t *testing.T) {
	table := raysys.NewTable()
	cube := tasks.DefineIn(table, "cube", func(_ context.Context, x int) (int, error) { return x * x * x, nil })
	nest := tasks.DefineIn(table, "nest", func(ctx context.Context, x int) (int, error) {
		a, b := cube.Go(ctx, x), cube.Go(ctx, x+1)
		v, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		u, err := b.Get(ctx)
		return v + u, err
	})
	d := newHost(t, "driver", table, 0)
	links := make([]*link, 5)
	for i := range links {
		links[i] = join(t, d, newHost(t, fmt.Sprintf("worker%d", i), table, 1))
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i = (i + 1) % len(links) {
			select {
			case <-stop:
				done <- n
				return
			case <-tick.C:
			}
			w := links[i].ends[1].here
			links[i].cut(errSevered)
			links[i] = join(t, d, w)
			n++
		}
	}()
	ctx := d.ctx()
	many := cube.With(raysys.Retries(1000), raysys.Backoff(0, time.Millisecond))
	deep := nest.With(raysys.Retries(1000), raysys.Backoff(0, time.Millisecond))
	var refs, nested []raysys.Ref[int]
	for i := range 100 {
		xs := make([]int, 50)
		for j := range xs {
			xs[j] = i
		}
		refs = append(refs, many.Map(ctx, xs)...)
		for range 50 {
			if i%5 == 0 {
				nested = append(nested, deep.Go(ctx, i))
			} else {
				refs = append(refs, many.Go(ctx, i))
			}
		}
	}
	for _, r := range append(refs, nested...) {
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	deaths := <-done
	sum, right := 0, 0
	for i := range 100 {
		right += 50 * i * i * i
		if i%5 == 0 {
			right += 50 * (i*i*i + (i+1)*(i+1)*(i+1))
		} else {
			right += 50 * i * i * i
		}
	}
	for _, r := range append(refs, nested...) {
		v, _ := r.Get(ctx)
		sum += v
	}
	if sum != right || deaths == 0 {
		t.Errorf("the sum is %d after %d deaths, want %d", sum, deaths, right)
	}
}
