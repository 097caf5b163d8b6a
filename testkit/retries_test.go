package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var errBusy = errors.New("busy")

var _ = raysys.RegisterError("testkit_test.busy", errBusy)

// flaky fails until it has been called often enough. What it counts is the process's, so that it outlives a node.
type flaky struct{}

var (
	flakyCalls atomic.Int64
	flakyGood  atomic.Int64 // the first call that succeeds
	flakyWaits atomic.Pointer[chan struct{}]
)

func (*flaky) Try(ctx context.Context, n int) (string, error) {
	call := flakyCalls.Add(1)
	if wait := flakyWaits.Load(); wait != nil && call < flakyGood.Load() {
		select {
		case *wait <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		<-ctx.Done()
		return "", ctx.Err()
	}
	if call < flakyGood.Load() {
		return "", errBusy
	}
	return fmt.Sprint(at(ctx), n), nil
}

var (
	flakies  = grains.DefineIn[flaky](table, "flaky")
	tryOnce  = grains.Method(flakies, "try", (*flaky).Try)
	tryAgain = tryOnce.Idempotent().With(raysys.Retries(2)).With(raysys.Backoff(time.Second, 4*time.Second)).
			With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }))
)

// TestGrainRetries: calls of an idempotent method are repeated for the errors that RetryIf accepts, after the pauses
// that Backoff says, as often as Retries says.
func TestGrainRetries(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			opts := []testkit.Option{testkit.Table(table)}
			if nodes > 0 {
				opts = append(opts, testkit.Nodes(nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				run := func(good int64, r func() raysys.Ref[string]) (string, time.Duration, error) {
					flakyCalls.Store(0)
					flakyGood.Store(good)
					from := time.Now()
					v, err := r().Get(ctx)
					return v, time.Since(from), err
				}
				g := flakies.Get("a")
				_, _, _ = run(1, func() raysys.Ref[string] { return tryAgain.Call(ctx, g, 0) }) // it is active
				for name, f := range map[string]func() raysys.Ref[string]{
					"Call": func() raysys.Ref[string] { return tryAgain.Call(ctx, g, 7) },
					"On":   func() raysys.Ref[string] { return tryAgain.On(ctx, g, raysys.Put(ctx, 7)) },
				} {
					v, took, err := run(3, f)
					if err != nil || v[len(v)-1] != '7' || took < 1500*time.Millisecond || took > 6*time.Second {
						t.Errorf("%s: %q, %v after %v; want the third attempt, after 1 s and 2 s less up to half of each", name, v, err, took)
					}
					_, _, err = run(9, f)
					var te *raysys.TaskError
					if !errors.Is(err, errBusy) || !errors.As(err, &te) || te.Attempt != 3 || flakyCalls.Load() != 3 {
						t.Errorf("%s: %v after %d calls, want the error of attempt 3", name, err, flakyCalls.Load())
					}
				}
				never := tryAgain.With(raysys.RetryIf(func(error) bool { return false }))
				if _, _, err := run(3, func() raysys.Ref[string] { return never.Call(ctx, g, 1) }); !errors.Is(err, errBusy) || flakyCalls.Load() != 1 {
					t.Errorf("RetryIf refuses, and there were %d calls: %v", flakyCalls.Load(), err)
				}
				short := tryAgain.With(raysys.Deadline(200 * time.Millisecond))
				_, took, err := run(3, func() raysys.Ref[string] { return short.Call(ctx, g, 1) })
				if !errors.Is(err, raysys.ErrDeadline) || took < 200*time.Millisecond || took >= 500*time.Millisecond { // the pause is longer
					t.Errorf("a deadline in the pause: %v after %v", err, took)
				}
			}, opts...)
		})
	}
}

// TestGrainRetriesOnNodeLoss: an attempt that was lost with its node counts, and the next one finds the grain
// elsewhere.
func TestGrainRetriesOnNodeLoss(t *testing.T) {
	for _, retries := range []int{0, 1} {
		testkit.Virtual(t, func(k *testkit.Kit) {
			ctx, t := k.Context(), k.T()
			entered := make(chan struct{})
			flakyWaits.Store(&entered)
			defer flakyWaits.Store(nil)
			flakyCalls.Store(0)
			flakyGood.Store(2)
			r := tryOnce.Idempotent().With(raysys.Retries(retries), raysys.Placement(raysys.Spread)).Call(ctx, flakies.Get("b"), 7)
			<-entered
			dead := 0
			for i := 1; i <= 3; i++ {
				if grainengine.Of(k.Cluster().Node(i).Context(context.Background())).Activations("flaky") > 0 {
					dead = i
				}
			}
			k.Cluster().Kill(dead)
			v, err := r.Get(ctx)
			switch {
			case retries == 0 && !errors.Is(err, raysys.ErrOutcomeUnknown):
				t.Errorf("without retries the loss of the node gave %q, %v; want ErrOutcomeUnknown", v, err)
			case retries == 1 && (err != nil || v == fmt.Sprint(k.Cluster().Name(dead), 7)):
				t.Errorf("a retry after the loss of the node gave %q, %v", v, err)
			}
		}, testkit.Table(table), testkit.Nodes(3))
	}
}

// TestWithAdds: a handle keeps what an earlier With said, and refuses what its calls cannot have.
func TestWithAdds(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		g := flakies.Get("c")
		flakyCalls.Store(0)
		flakyGood.Store(1)
		if _, err := tryOnce.With(raysys.Deadline(time.Second)).With(raysys.Detached()).Call(ctx, g, 1).Get(ctx); err != nil {
			t.Error(err)
		}
		entered := make(chan struct{}, 1)
		flakyWaits.Store(&entered)
		defer flakyWaits.Store(nil)
		flakyGood.Store(9)
		from := time.Now()
		_, err := tryOnce.With(raysys.Deadline(time.Second)).With(raysys.Detached()).Call(ctx, g, 1).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) || time.Since(from) > 10*time.Second { // a call without one has 30 s
			t.Errorf("the deadline of an earlier With was forgotten: %v after %v", err, time.Since(from))
		}
		from = time.Now()
		_, err = napTask.With(raysys.Deadline(time.Second)).With(raysys.CPU(0)).Go(ctx, time.Hour).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) || time.Since(from) > 10*time.Second {
			t.Errorf("the deadline of a task's earlier With was forgotten: %v after %v", err, time.Since(from))
		}
		_, err = napTask.With(raysys.Label("gpu", "none")).With(raysys.Deadline(time.Second)).Go(ctx, 0).Get(ctx)
		if err == nil {
			t.Error("the label of a task's earlier With was forgotten: it ran")
		}
		for name, o := range map[string]raysys.Option{
			"CPU": raysys.CPU(2), "GPU": raysys.GPU(1), "Memory": raysys.Memory(1), "Custom": raysys.Resource("x", 1),
			"Retries": raysys.Retries(1), "RetryIf": raysys.RetryIf(func(error) bool { return true }), "Backoff": raysys.Backoff(1, 2),
		} {
			if _, err := tryOnce.With(o).Call(ctx, g, 1).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
				t.Errorf("%s on a method that cannot have it: %v, want ErrBadOption", name, err)
			}
		}
		flakyWaits.Store(nil)
		flakyGood.Store(1)
		if _, err := tryOnce.With(raysys.Retries(1)).Idempotent().Call(ctx, g, 1).Get(ctx); err != nil {
			t.Errorf("With before Idempotent: %v", err)
		}
	}, testkit.Table(table), testkit.Nodes(1))
}

var napTask = tasks.DefineIn(table, "nap long", func(ctx context.Context, d time.Duration) (int, error) {
	select {
	case <-time.After(d):
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
})

// dice fails where it draws less than a half.
type dice struct{}

func (*dice) Roll(ctx context.Context, _ int) (int, error) { return roll(ctx) }

func roll(ctx context.Context) (int, error) {
	if n := raysys.Attempt(ctx); n < 1 || n > 20 {
		return 0, fmt.Errorf("attempt %d", n)
	}
	if raysys.Rand(ctx).Float64() < 0.5 {
		return 0, errBusy
	}
	return raysys.Attempt(ctx), nil
}

var (
	onBusy   = raysys.RetryIf(func(err error) bool { return errors.Is(err, errBusy) })
	noPause  = raysys.Backoff(0, 0)
	rollTask = tasks.DefineIn(table, "roll", func(ctx context.Context, _ int) (int, error) { return roll(ctx) }).With(raysys.Retries(20), onBusy, noPause)
	dices    = grains.DefineIn[dice](table, "dice")
	rollCall = grains.Method(dices, "roll", (*dice).Roll).Idempotent().With(raysys.Retries(20), onBusy, noPause)
)

// TestRetriesDrawAnew: work that fails by what it draws from raysys.Rand succeeds in one of its attempts, here and on another node,
// and knows the number of that.
func TestRetriesDrawAnew(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		opts := []testkit.Option{testkit.Table(table)}
		if nodes > 0 {
			opts = append(opts, testkit.Nodes(nodes))
		}
		k := testkit.New(t, opts...)
		ctx := k.Context()
		for what, submit := range map[string]func(i int) raysys.Ref[int]{
			"task": func(i int) raysys.Ref[int] { return rollTask.Go(ctx, i) },
			"call": func(i int) raysys.Ref[int] { return rollCall.Call(ctx, dices.Get(fmt.Sprint(i)), i) },
		} {
			most := 0
			for i := range 100 {
				n, err := submit(i).Get(ctx)
				if err != nil {
					t.Errorf("%d nodes, %s %d: %v", nodes, what, i, err)
				}
				most = max(most, n)
			}
			if most < 3 {
				t.Errorf("%d nodes: no %s took more than %d attempts", nodes, what, most)
			}
		}
	}
	if n := raysys.Attempt(context.Background()); n != 0 {
		t.Errorf("attempt %d without a runtime", n)
	}
}
