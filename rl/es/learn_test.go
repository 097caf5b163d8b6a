package es_test

import (
	"cmp"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/es"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	poles    = es.Define("es-test-poles", envs.CartPole, es.Config{})
	pendulum = es.Define("es-test-pendulum", envs.Pendulum, es.Config{Pairs: 64, Sigma: 0.1, LearningRate: 0.05})
)

// TestLearns: an update makes better what acts, by numbered actions and by vectors. Random search does on CartPole, and not on Pendulum.
func TestLearns(t *testing.T) {
	ctx := testkit.New(t, testkit.Loose()).Context()
	for seed := range long.Form[uint64](1, 5) {
		plan := es.Plan{Steps: 400_000, Workers: 6, Goal: 475, Seed: seed + 1}
		r, err := poles.Train(ctx, plan)
		if err != nil || !r.Solved || r.MeanReturn < 475 {
			t.Errorf("%v\n%v", r, err)
		}
		if r, err := poles.Random(ctx, plan); err != nil || !r.Solved {
			t.Errorf("%v\n%v", r, err)
		}
		swing := es.Plan{Steps: long.Form(500_000, 4_000_000), Workers: 6, Goal: long.Form(-900.0, -250), Seed: seed + 1}
		if r, err = pendulum.Train(ctx, swing); err != nil || !r.Solved {
			t.Errorf("%v\n%v", r, err)
		}
		swing.Steps = r.Steps
		random, err := pendulum.Random(ctx, swing)
		if err != nil || random.MeanReturn > r.MeanReturn {
			t.Errorf("%v\n%v", random, err)
		}
		t.Logf("%v\n%v", r, random)
	}
}

// TestPolicy: what a run returns acts as it was measured.
func TestPolicy(t *testing.T) {
	r, err := poles.Train(testkit.New(t).Context(), es.Plan{Steps: 100_000, Goal: 475})
	if err != nil || !r.Solved {
		t.Fatal(r, err)
	}
	p, err := poles.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Load(r.Weights); err != nil {
		t.Fatal(err)
	}
	if got, err := rl.Evaluate(envs.CartPole, 77, p, 100); err != nil || got < 400 {
		t.Errorf("%v instead of about %v, %v", got, r.MeanReturn, err)
	}
	if err := p.Load(rl.Weights{Model: "es other", Params: r.Weights.Params}); !errors.Is(err, rl.ErrModel) {
		t.Error(err)
	}
}

// watch is told each episode of watched.
var watch atomic.Pointer[func()]

var watched = es.Define("es-test-watched", func(seed uint64) rl.Env[int] {
	if f := watch.Load(); f != nil {
		(*f)()
	}
	return envs.CartPole(seed)
}, es.Config{Fanout: 2})

// TestSameEverywhere: a run is the same bit for bit on one node, and on three of which each dies in mid-run.
func TestSameEverywhere(t *testing.T) {
	plan := es.Plan{Steps: 30_000, Workers: 11}
	one, err := watched.Train(testkit.New(t).Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	k := testkit.New(t, testkit.Nodes(3))
	var episodes, died atomic.Int32
	hook := func() {
		if n := episodes.Add(1); n%60 == 0 && n <= 180 {
			node := int(n / 60)
			go func() { k.Cluster().Kill(node); k.Cluster().Restart(node); died.Add(1) }()
		}
	}
	watch.Store(&hook)
	defer watch.Store(nil)
	three, err := watched.Train(k.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if died.Load() != 3 {
		t.Errorf("%d died", died.Load())
	}
	for _, r := range []*rl.Run{one, three} {
		r.Took = 0
		for i := range r.Points {
			r.Points[i].Seconds, r.Points[i].Loss = 0, 0
		}
	}
	if !reflect.DeepEqual(one, three) {
		t.Errorf("%+v\n%+v", one, three)
	}
}

// broken has episodes that do not go on.
type broken struct{ rl.Env[int] }

func (broken) Step(int) rl.Step { panic("enough") }

var breaks = es.Define("es-test-broken", func(seed uint64) rl.Env[int] { return broken{envs.CartPole(seed)} }, es.Config{})

// TestAllAreHeard: where the environments of all players break, the failure that the run ends with is the one of which anybody hears: the log has none that
// nobody looked at.
func TestAllAreHeard(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	k := testkit.New(t, testkit.Nodes(1), testkit.Loose(), testkit.Each(func(_ int, cfg *system.Config) { cfg.Logger = zap.New(core) }))
	for i := range 3 {
		func() { // the frame's references go with it
			if _, err := breaks.Train(raysys.Branch(k.Context(), i), es.Plan{Steps: 1, Workers: 21}); err == nil {
				t.Error("the run has no error")
			}
		}()
	}
	for range 10 {
		runtime.GC()
	}
	if list := logs.FilterMessage("failure nobody looked at").All(); len(list) > 0 {
		t.Errorf("%d failures that nobody looked at: %v", len(list), list[0].ContextMap())
	}
}

// TestEvaluationSteps: a run says how many steps beside those of training it has made: a tenth, and ten episodes at its end, and what random actions return where
// the Spec says it.
func TestEvaluationSteps(t *testing.T) {
	for s, random := range map[*es.Search]float64{poles: 22.3, unknown: math.NaN()} {
		r, err := s.Train(testkit.New(t).Context(), es.Plan{Steps: 2000})
		if err != nil {
			t.Fatal(err)
		}
		most := 0.0 // a step of CartPole has reward 1
		for _, p := range r.Points {
			most += 6 * p.Evaluated
		}
		if most += 10 * r.MeanReturn; math.Abs(most-float64(r.EvaluationSteps)) > 0.5 || r.Solved {
			t.Errorf("%d steps of evaluations, want %v", r.EvaluationSteps, most)
		}
		if r.RandomReturn != random && !math.IsNaN(random) || math.IsNaN(r.RandomReturn) != math.IsNaN(random) {
			t.Errorf("random actions return %v, want %v", r.RandomReturn, random)
		}
	}
}

// strange has a Spec that does not say what random actions return.
type strange struct{ rl.Env[int] }

func (s strange) Spec() rl.Spec {
	spec := s.Env.Spec()
	spec.Random = 0
	return spec
}

var unknown = es.Define("es-test-unknown", func(seed uint64) rl.Env[int] { return strange{envs.CartPole(seed)} }, es.Config{})

// boundless has actions without a lower bound.
type boundless struct{ rl.Env[[]float32] }

func (b boundless) Spec() rl.Spec {
	spec := b.Env.Spec()
	spec.Low = []float32{float32(math.Inf(-1))}
	return spec
}

var noBounds = es.Define("es-test-boundless", func(seed uint64) rl.Env[[]float32] { return boundless{envs.Pendulum(seed)} }, es.Config{})

func TestBadInput(t *testing.T) {
	ctx := testkit.New(t).Context()
	if _, err := noBounds.Train(ctx, es.Plan{Steps: 1}); err == nil || !strings.Contains(err.Error(), "element 0 of actions is between -Inf and 2") {
		t.Error(err)
	}
	_, err := breaks.Train(ctx, es.Plan{Steps: 1, Workers: 3})
	if bad := (*rl.EnvError)(nil); !errors.As(err, &bad) || bad.Name != "CartPole" {
		t.Error(err)
	}
	for _, c := range []struct {
		want string
		s    *es.Search
		p    es.Plan
	}{
		{"Plan.Steps is 0", nil, es.Plan{}},
		{"Plan.Workers is -1", nil, es.Plan{Steps: 1, Workers: -1}},
		{"has no environment", es.Define[int]("es-test-none", nil, es.Config{}), es.Plan{Steps: 1}},
		{"no arms", es.Define("es-test-arms", func(seed uint64) rl.Env[int] { return envs.Bandit(seed) }, es.Config{}), es.Plan{Steps: 1}},
		{"Config.Pairs is -1", es.Define("es-test-pairs", envs.CartPole, es.Config{Pairs: -1}), es.Plan{Steps: 1}},
		{"Config.Sigma is -1", es.Define("es-test-sigma", envs.CartPole, es.Config{Sigma: -1}), es.Plan{Steps: 1}},
	} {
		s := cmp.Or(c.s, poles)
		if _, err := s.Train(ctx, c.p); !errors.Is(err, es.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := poles.Train(t.Context(), es.Plan{Steps: 1}); err == nil {
		t.Error("it ran without a runtime")
	}
}
