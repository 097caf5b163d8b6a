package params_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/params"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/testkit"
)

var (
	one   = params.Define[float64]("params_test.one", 1)
	three = params.Define[float64]("params_test.three", 3)
	brief = params.Define[float64]("params_test.brief", 2, params.Patience(time.Second))
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func begin(t testing.TB, ctx context.Context, m params.Model[float64], n int, cfg params.Config) params.Weights[float64] {
	t.Helper()
	w := make([]float64, n)
	for i := range w {
		w[i] = float64(i)
	}
	if err := m.Init(ctx, w, cfg); err != nil {
		t.Fatal(err)
	}
	return must[params.Weights[float64]](t)(m.Pull(ctx))
}

func fill(n int, x float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = x
	}
	return v
}

// reference is the model without shards, messages or other workers.
type reference struct {
	o    params.Optimizer
	w    []float64
	a, b []float64
	t    int
}

func (r *reference) step(g []float64) {
	r.t++
	if r.a == nil {
		r.a, r.b = make([]float64, len(r.w)), make([]float64, len(r.w))
	}
	for i := range r.w {
		switch r.o.Rule {
		case params.RuleSGD:
			r.w[i] -= r.o.Rate * g[i]
		case params.RuleMomentum:
			r.a[i] = r.o.Beta1*r.a[i] + g[i]
			r.w[i] -= r.o.Rate * r.a[i]
		case params.RuleAdam:
			r.a[i] = r.o.Beta1*r.a[i] + (1-r.o.Beta1)*g[i]
			r.b[i] = r.o.Beta2*r.b[i] + (1-r.o.Beta2)*g[i]*g[i]
			mean, square := r.a[i]/(1-math.Pow(r.o.Beta1, float64(r.t))), r.b[i]/(1-math.Pow(r.o.Beta2, float64(r.t)))
			r.w[i] -= r.o.Rate * mean / (math.Sqrt(square) + r.o.Epsilon)
		}
	}
}

// TestLikeOneProcess: any number of shards and workers comes to what one loop comes to.
func TestLikeOneProcess(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	id := 0
	rapid.Check(t, func(t *rapid.T) {
		id++
		model := rapid.SampledFrom([]params.Server[float64]{one, three}).Draw(t, "server").Get(strconv.Itoa(id))
		o := rapid.SampledFrom([]params.Optimizer{params.SGD(0.3), params.Momentum(0.1, 0.5), params.Adam(0.01)}).Draw(t, "rule")
		n, workers := rapid.IntRange(0, 12).Draw(t, "n"), rapid.IntRange(0, 4).Draw(t, "workers")
		start := rapid.SliceOfN(rapid.Float64Range(-1, 1), n, n).Draw(t, "start")
		ref := &reference{o: o, w: append([]float64{}, start...)}
		if err := model.Init(ctx, start, params.Config{Optimizer: o, Workers: workers}); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			w, err := model.Pull(ctx)
			if err != nil {
				t.Fatal(err)
			}
			all := max(workers, 1)
			mean := make([]float64, n)
			errs := make([]error, all)
			var wg sync.WaitGroup
			for worker := range all {
				g := rapid.SliceOfN(rapid.Float64Range(-1, 1), n, n).Draw(t, "gradient")
				for i := range mean {
					mean[i] += g[i]
				}
				wg.Go(func() {
					var v params.Version
					v, errs[worker] = model.Push(raysys.Branch(ctx, worker), w.Version, worker, g)
					if want := (params.Version{Run: w.Version.Run, Step: w.Version.Step + 1}); errs[worker] == nil && v != want {
						errs[worker] = fmt.Errorf("version %v after the push, want %v", v, want)
					}
					for i := range g { // the caller may use it again
						g[i] = math.NaN()
					}
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for i := range mean {
				mean[i] /= float64(all)
			}
			ref.step(mean)
		}
		w, err := model.Pull(ctx)
		if err != nil || w.Ahead != 0 || w.Version.Step != uint64(ref.t) || len(w.Values) != n {
			t.Fatalf("%+v, %v", w, err)
		}
		for i, x := range w.Values {
			if math.Abs(x-ref.w[i]) > 1e-9 {
				t.Fatalf("weight %d is %v, want %v", i, x, ref.w[i])
			}
		}
		if err := model.Drop(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnyOrder: a synchronous step is the same, bit for bit, whoever pushes first.
func TestAnyOrder(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	r := rand.New(rand.NewPCG(3, 4))
	const workers, n = 5, 50
	grads := make([][]float64, workers)
	for i := range grads {
		for range n {
			grads[i] = append(grads[i], math.Exp(40*r.Float64()-20))
		}
	}
	var first []float64
	for run := range 10 {
		m := three.Get(strconv.Itoa(run))
		w := begin(t, ctx, m, n, params.Config{Optimizer: params.SGD(1), Workers: workers})
		var wg sync.WaitGroup
		for _, worker := range r.Perm(workers) {
			wg.Go(func() {
				if _, err := m.Push(raysys.Branch(ctx, worker), w.Version, worker, grads[worker]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w = must[params.Weights[float64]](t)(m.Pull(ctx))
		if first == nil {
			first = w.Values
		}
		for i := range first {
			if math.Float64bits(first[i]) != math.Float64bits(w.Values[i]) {
				t.Fatalf("run %d: weight %d is %v, and was %v", run, i, w.Values[i], first[i])
			}
		}
	}
}

func TestAsynchronousAtOnce(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	const workers, pushes, n = 4, 25, 10
	m := three.Get("async")
	begin(t, ctx, m, n, params.Config{Optimizer: params.SGD(0.5)})
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			ctx := raysys.Branch(ctx, worker)
			for range pushes {
				w, err := m.Pull(ctx)
				if err == nil {
					_, err = m.Push(ctx, w.Version, worker, fill(n, -2))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	w := must[params.Weights[float64]](t)(m.Pull(ctx))
	if w.Version.Step != workers*pushes || w.Ahead != 0 {
		t.Errorf("%d steps after %d pushes", w.Version.Step, workers*pushes)
	}
	for i, x := range w.Values {
		if want := float64(i) + workers*pushes; x != want {
			t.Errorf("weight %d is %v, want %v: a push was lost or counted twice", i, x, want)
		}
	}
}

func TestStaleness(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	m := three.Get("stale")
	w := begin(t, ctx, m, 6, params.Config{Optimizer: params.SGD(1), Staleness: 2})
	for i := range 5 {
		_, err := m.Push(ctx, w.Version, 0, fill(6, 1))
		var bad *params.PushError
		if i <= 2 && err != nil || i > 2 && (!errors.Is(err, params.ErrStale) || !errors.As(err, &bad) || len(bad.Shards) != 3) {
			t.Errorf("push %d, on weights %d steps old: %v", i, i, err)
		}
	}
	if got := must[params.Weights[float64]](t)(m.Pull(ctx)); got.Version.Step != 3 || got.Values[5] != 2 {
		t.Errorf("%+v: a stale push counted", got)
	}
}

func TestRefusedPushes(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	m := three.Get("refused")
	if _, err := m.Pull(ctx); !errors.Is(err, params.ErrNoModel) {
		t.Errorf("Pull before Init: %v", err)
	}
	if _, err := m.Push(ctx, params.Version{}, 0, nil); !errors.Is(err, params.ErrNoModel) {
		t.Errorf("Push before Init: %v", err)
	}
	if err := m.Expect(ctx, 1); !errors.Is(err, params.ErrNoModel) {
		t.Errorf("Expect before Init: %v", err)
	}
	if err := m.Await(ctx, params.Version{}); !errors.Is(err, params.ErrNoModel) {
		t.Errorf("Await before Init: %v", err)
	}
	for _, cfg := range []params.Config{
		{},
		{Optimizer: params.SGD(0)},
		{Optimizer: params.SGD(math.NaN())},
		{Optimizer: params.SGD(math.Inf(1))},
		{Optimizer: params.Momentum(1, 1)},
		{Optimizer: params.Optimizer{Rule: params.RuleAdam, Rate: 1}},
		{Optimizer: params.SGD(1), Workers: -1},
		{Optimizer: params.SGD(1), Workers: 1, Staleness: 1},
	} {
		if err := m.Init(ctx, nil, cfg); !errors.Is(err, params.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	w := begin(t, ctx, m, 6, params.Config{Optimizer: params.SGD(1), Workers: 1})
	v := w.Version
	for name, c := range map[string]struct {
		at   params.Version
		n    int
		want error
	}{
		"short":       {v, 5, params.ErrLength},
		"long":        {v, 7, params.ErrLength},
		"ahead":       {params.Version{Run: v.Run, Step: 1}, 6, params.ErrStale},
		"another run": {params.Version{Run: v.Run + 1}, 6, params.ErrStale},
		"zero":        {params.Version{}, 6, params.ErrStale},
	} {
		if _, err := m.Push(ctx, c.at, 0, fill(c.n, 1)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.PullRange(ctx, 2, 7); !errors.Is(err, params.ErrLength) {
		t.Errorf("a range beyond the end: %v", err)
	}
	if err := m.Expect(ctx, 0); !errors.Is(err, params.ErrConfig) {
		t.Errorf("Expect(0): %v", err)
	}
	after := must[params.Version](t)(m.Push(ctx, v, 0, fill(6, 1)))
	if got := must[params.Version](t)(m.Push(ctx, v, 0, fill(6, 1))); got != after {
		t.Errorf("a push that is repeated gives %v, want %v", got, after)
	}
	if _, err := m.Push(ctx, v, 1, fill(6, 1)); !errors.Is(err, params.ErrStale) {
		t.Errorf("a late worker: %v", err)
	}
	if got := must[params.Weights[float64]](t)(m.Pull(ctx)); got.Version != after || got.Values[3] != 2 {
		t.Errorf("%+v: only one push counts", got)
	}
	begin(t, ctx, m, 6, params.Config{Optimizer: params.SGD(1), Workers: 1})
	if _, err := m.Push(ctx, after, 0, fill(6, 1)); !errors.Is(err, params.ErrStale) {
		t.Errorf("a push of the run before: %v", err)
	}
}

// TestMissingWorker: a round that lacks a worker hangs nobody, keeps what it has, and goes on.
func TestMissingWorker(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t := k.T()
		ctx := k.Context()
		m := brief.Get("missing")
		w := begin(t, ctx, m, 4, params.Config{Optimizer: params.SGD(1), Workers: 3})
		push := func(worker int) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := m.Push(raysys.Branch(ctx, worker), w.Version, worker, fill(4, float64(worker)))
				done <- err
			}()
			return done
		}
		a, b := push(0), push(1)
		k.Settle()
		k.Advance(2 * time.Second)
		for _, done := range []<-chan error{a, b} {
			if err := <-done; !errors.Is(err, raysys.ErrDeadline) {
				t.Errorf("a push of a round that is not complete: %v", err)
			}
		}
		for _, s := range must[[]params.Status](t)(m.Status(ctx)) {
			if diff := cmp.Diff(params.Status{Version: w.Version, Len: 2, Workers: 3, In: []int{0, 1}}, s); diff != "" {
				t.Error(diff)
			}
		}
		if _, err := m.Push(ctx, w.Version, 1, fill(4, 9)); !errors.Is(err, params.ErrWorker) {
			t.Errorf("another gradient under the same number: %v", err)
		}
		c := push(2) // the worker that was started anew
		if err := <-c; err != nil {
			t.Error(err)
		}
		if err := <-push(0); err != nil { // it counted already
			t.Error(err)
		}
		w = must[params.Weights[float64]](t)(m.Pull(ctx))
		if w.Version.Step != 1 || w.Values[2] != 2-1 {
			t.Errorf("%+v", w)
		}
		a, b = push(0), push(1)
		k.Settle()
		if err := m.Expect(ctx, 2); err != nil {
			t.Error(err)
		}
		for _, done := range []<-chan error{a, b} {
			if err := <-done; err != nil {
				t.Errorf("a round of two of two: %v", err)
			}
		}
	})
}

func TestCache(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	m := three.Get("cache")
	const n = 60_000 // 160 KB a shard: as an object
	w := begin(t, ctx, m, n, params.Config{Optimizer: params.SGD(1)})
	c := m.Cache()
	for i := range 3 {
		got, changed, err := c.Pull(ctx)
		if err != nil || !changed || got.Version != w.Version {
			t.Fatalf("%v, changed %v, %v", got.Version, changed, err)
		}
		if diff := cmp.Diff(w.Values, got.Values); diff != "" {
			t.Fatal("the cache has other values")
		}
		again, changed, err := c.Pull(ctx)
		if err != nil || changed || &again.Values[0] != &got.Values[0] {
			t.Fatalf("nothing was pushed: changed %v, %v", changed, err)
		}
		before := got.Values[7]
		if _, err := m.Push(ctx, w.Version, 0, fill(n, 1)); err != nil {
			t.Fatal(err)
		}
		if got.Values[7] != before {
			t.Fatal("a step changed weights that were handed out")
		}
		w = must[params.Weights[float64]](t)(m.Pull(ctx))
		if w.Values[7] != float64(7-i-1) {
			t.Fatalf("weight 7 is %v", w.Values[7])
		}
	}
}

func TestRanges(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	m := three.Get("ranges")
	all := begin(t, ctx, m, 10, params.Config{Optimizer: params.SGD(1)}).Values
	for lo := 0; lo <= 10; lo++ {
		for hi := lo; hi <= 10; hi++ {
			w, err := m.PullRange(ctx, lo, hi)
			if err != nil || len(w.Values) != hi-lo {
				t.Fatalf("%d to %d: %v, %v", lo, hi, w, err)
			}
			for i, x := range w.Values {
				if x != all[lo+i] {
					t.Errorf("%d to %d: %v", lo, hi, w.Values)
				}
				w.Values[i] = -1 // it is the caller's
			}
		}
	}
}

func TestAwait(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t := k.T()
		ctx := k.Context()
		m := brief.Get("await")
		w := begin(t, ctx, m, 4, params.Config{Optimizer: params.SGD(1)})
		if err := m.Await(ctx, w.Version); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("no step was made: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- m.Await(raysys.Branch(ctx, 1), w.Version) }()
		k.Settle()
		if _, err := m.Push(ctx, w.Version, 0, fill(4, 1)); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := m.Await(ctx, w.Version); err != nil {
			t.Errorf("a step was made before: %v", err)
		}
	})
}

// TestLostShard: the death of a node with shards is told, and the model goes on after another Init.
func TestLostShard(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	ctx := k.Context()
	m := three.Get("lost")
	const n = 30_000
	w := begin(t, ctx, m, n, params.Config{Optimizer: params.SGD(1), Workers: 2})
	waiting := make(chan error, 1)
	go func() {
		_, err := m.Push(raysys.Branch(ctx, 1), w.Version, 1, fill(n, 1))
		waiting <- err
	}()
	testkit.Eventually(t, 10*time.Second, "the push is in", func() bool {
		for _, s := range must[[]params.Status](t)(m.Status(ctx)) {
			if len(s.In) != 1 {
				return false
			}
		}
		return true
	})
	for i := 1; i <= 3; i++ {
		if grainengine.Of(k.Cluster().Node(i).Context(context.Background())).Activations("params_test.three") > 0 {
			k.Cluster().Kill(i)
			break
		}
	}
	if err := <-waiting; !errors.Is(err, params.ErrNoModel) {
		t.Errorf("a push that waited: %v", err)
	}
	if _, err := m.Pull(ctx); !errors.Is(err, params.ErrNoModel) {
		t.Errorf("Pull: %v", err)
	}
	w = begin(t, ctx, m, n, params.Config{Optimizer: params.SGD(1), Workers: 1})
	if _, err := m.Push(ctx, w.Version, 0, fill(n, 1)); err != nil {
		t.Error(err)
	}
	if w = must[params.Weights[float64]](t)(m.Pull(ctx)); w.Values[9] != 8 {
		t.Errorf("weight 9 is %v", w.Values[9])
	}
}
