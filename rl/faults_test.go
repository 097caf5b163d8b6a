package rl_test

import (
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// at is told how many steps the learner of an experiment has made.
var at atomic.Pointer[func(steps int)]

var watchedArms = arms{loss: func(steps int) float64 {
	if f := at.Load(); f != nil {
		(*f)(steps)
	}
	return 1
}}

var watched = rl.Define("rl-test-watched", rl.Setup[int]{Env: bandit, Agent: watchedArms})

// TestNodesDie: each node dies in mid-run, the learner's among them. The run goes on from the checkpoint, and no counter goes back.
func TestNodesDie(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	var one sync.Mutex
	died := 0
	hook := func(steps int) {
		one.Lock()
		defer one.Unlock()
		if died < 3 && steps >= 400*(died+1) {
			died++
			node := died
			go func() { k.Cluster().Kill(node); k.Cluster().Restart(node) }()
		}
	}
	at.Store(&hook)
	defer at.Store(nil)
	r, err := watched.Train(k.Context(), rl.Plan{Steps: 6000, Actors: 4, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	one.Lock()
	defer one.Unlock()
	if died != 3 || r.Steps < 6000 || r.LearnerSteps < 1500 || r.MeanReturn < 0.75 {
		t.Errorf("%d died: %d steps, %d of the learner, mean return %v", died, r.Steps, r.LearnerSteps, r.MeanReturn)
	}
	before := rl.Point{}
	for _, p := range r.Points {
		if p.Steps < before.Steps || p.Episodes < before.Episodes || p.LearnerSteps < before.LearnerSteps {
			t.Errorf("a counter went back: %+v, then %+v", before, p)
		}
		before = p
	}
	t.Logf("%v, %d steps of the learner", r.Took, r.LearnerSteps)
}

// TestGoesOn: a run that ended early goes on by its name, in one goroutine and on nodes.
func TestGoesOn(t *testing.T) {
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
			plan := rl.Plan{Steps: 3000, Actors: actors, Name: "long", Progress: io.Discard}
			abandon(t, k, plan)
			r := goesOn(t, k.Context(), plan)
			if first := r.Points[0]; r.Resumed == 0 || first.Steps <= r.Resumed {
				t.Errorf("it began anew: %+v", first)
			}
			if r, err := watched.Train(k.Context(), plan); err != nil || r.Points[0].Steps > 1000 {
				t.Errorf("a run that has ended goes on: %+v %v", r.Points[0], err)
			}
		})
	}
}

// abandon ends a run after 500 steps of its learner.
func abandon(t *testing.T, k *testkit.Kit, plan rl.Plan) {
	stop := func(steps int) {
		if steps >= 500 {
			panic("enough")
		}
	}
	at.Store(&stop)
	defer at.Store(nil)
	defer func() { _ = recover() }() // in one goroutine
	if _, err := watched.Train(k.Context(), plan); !errors.Is(err, raysys.ErrPanic) {
		t.Error(err)
	}
}

// TestLargeCheckpoint: one that is no State is found again, too.
func TestLargeCheckpoint(t *testing.T) {
	for _, size := range long.Form([]int64{200 << 10}, []int64{200 << 10, 65 << 20}) {
		pad.Store(size)
		defer pad.Store(0)
		k := testkit.New(t, testkit.Nodes(3))
		plan := rl.Plan{Steps: 3000, Actors: 2, Name: "large", Progress: io.Discard}
		abandon(t, k, plan)
		at, err := system.NodeOf(k.Context()).Explain(k.Context(), "rl-test-watched.learner/large")
		if err != nil || len(at.Placed) == 0 {
			t.Fatal(at, err)
		}
		for i := range 3 {
			if k.Cluster().Name(i+1) == at.Placed[len(at.Placed)-1].Node {
				k.Cluster().Kill(i + 1)
			}
		}
		if r := goesOn(t, k.Context(), plan); r.Resumed == 0 {
			t.Errorf("%d bytes: it began anew: %+v", size, r.Points[0])
		}
	}
}

// TestAnotherModel: a checkpoint of another net is refused, and stays.
func TestAnotherModel(t *testing.T) {
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
			plan := rl.Plan{Steps: 3000, Actors: actors, Name: "model", Progress: io.Discard}
			abandon(t, k, plan)
			if actors > 1 { // the activation that knows the old one is to go
				k.Cluster().Kill(1)
				k.Cluster().Kill(2)
				k.Cluster().Restart(1)
				k.Cluster().Restart(2)
			}
			other := "arms of an octopus"
			model.Store(&other)
			defer model.Store(nil)
			_, err := watched.Train(k.Context(), plan)
			if !errors.Is(err, rl.ErrModel) || !strings.Contains(err.Error(), "arms 3") || !strings.Contains(err.Error(), other) {
				t.Error(err)
			}
			model.Store(nil)
			if r, err := watched.Train(k.Context(), plan); err != nil || r.Resumed == 0 {
				t.Error(r, err)
			}
		})
	}
}

func define(name string, a arms) *rl.Experiment {
	return rl.Define("rl-test-"+name, rl.Setup[int]{Env: bandit, Agent: a})
}

func breaks(name string, change func(w *ints)) *rl.Experiment {
	return rl.Define("rl-test-"+name, rl.Setup[int]{Env: func(seed uint64) rl.Env[int] { return madeInts(change)(seed) }, Agent: arms{}})
}

// broken are experiments that fail by what is said.
var broken = []struct {
	name, says string
	e          *rl.Experiment
}{
	{"NaN observed", "number 0 of an observation is NaN", breaks("nan", func(w *ints) {
		w.took = func(w *ints, s *rl.Step, _ int) {
			if w.calls > 300 {
				s.Obs = []float32{float32(math.NaN()), 0}
			}
		}
	})},
	{"NaN reward", "a reward is NaN", breaks("reward", func(w *ints) {
		w.took = func(w *ints, s *rl.Step, _ int) { s.Reward = float32(math.NaN()) }
	})},
	{"another shape", "an observation has 3 numbers", breaks("shape", func(w *ints) {
		w.took = func(w *ints, s *rl.Step, _ int) { s.Obs = make([]float32, 3) }
	})},
	{"spec changes", "Spec has changed", breaks("spec", func(w *ints) {
		w.reset = func(w *ints) { w.spec.Actions = 2 + w.calls/200 }
	})},
	{"panic", "panic: lost", breaks("panics", func(w *ints) {
		w.took = func(w *ints, s *rl.Step, _ int) {
			if w.calls > 300 {
				panic("lost")
			}
		}
	})},
	{"action out of range", "the policy wants action 3 of 3", define("action", arms{act: func(a []float32) { a[0] = 3 }})},
	{"half an action", "the policy wants action 0.5 of 3", define("half", arms{act: func(a []float32) { a[0] = 0.5 }})},
	{"diverged", "its loss is NaN", define("diverged", arms{loss: func(n int) float64 {
		if n > 100 {
			return math.NaN()
		}
		return 1
	}})},
	{"never enough", "it has 1000 items and needs 5000", define("never", arms{size: 10_000, limiter: replay.SampleToInsertRatio(2, 5000, 40)})},
}

// TestBroken: what breaks the rules ends the run with an error that says so, in one goroutine and on nodes.
func TestBroken(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		k := testkit.New(t, testkit.Nodes(nodes))
		for _, tc := range broken {
			_, err := tc.e.Train(k.Context(), rl.Plan{Steps: 1000, Actors: 1 + nodes, Progress: io.Discard})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s, %d nodes: %v", tc.name, nodes, err)
			}
			var (
				env  *rl.EnvError
				shut *replay.ShutError
			)
			if !errors.As(err, &env) && !errors.As(err, &shut) && !errors.Is(err, rl.ErrDiverged) {
				t.Errorf("%s, %d nodes: %T %[3]v", tc.name, nodes, err)
			}
		}
	}
}

var smallQueue = define("queue", arms{limiter: replay.Queue(3)})

// TestSmallQueue: a queue that never has a batch is found where one goroutine would wait for itself. Grains collect the batch.
func TestSmallQueue(t *testing.T) {
	e := smallQueue
	var shut *replay.ShutError
	if _, err := e.Train(t.Context(), rl.Plan{Steps: 1000}); !errors.As(err, &shut) || !shut.Insert || !strings.Contains(err.Error(), "neither actor nor learner") {
		t.Error(err)
	}
	k := testkit.New(t, testkit.Nodes(2))
	if r, err := e.Train(k.Context(), rl.Plan{Steps: 1000, Actors: 2}); err != nil || r.LearnerSteps < 240 {
		t.Error(r, err)
	}
}

// TestPlans refuses what cannot be meant before anything is done.
func TestPlans(t *testing.T) {
	for says, p := range map[string]rl.Plan{
		"Steps is 0":         {},
		"Actors is -1":       {Steps: 1, Actors: -1},
		"Every is -2":        {Steps: 1, Every: -2},
		"Episodes is -1":     {Steps: 1, Episodes: -1},
		"MeanReturn(0, 1)":   {Steps: 1, Stop: rl.MeanReturn(0, 1)},
		"MeanReturn(-1, 1)":  {Steps: 1, Stop: rl.MeanReturn(-1, 1)},
		"MeanReturn(2, NaN)": {Steps: 1, Stop: rl.MeanReturn(2, math.NaN())},
		".csv or .jsonl":     {Steps: 1, Log: "a.txt"},
	} {
		if _, err := chooses.Train(t.Context(), p); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, s := range map[string]rl.Setup[int]{
		"no Env, or no Agent": {},
		"no adder":            {Env: bandit, Agent: wrong{}},
		"NStep(0, 1)":         {Env: bandit, Agent: arms{adder: rl.NStep(0, 1)}},
		"NStep(2, 1.5)":       {Env: bandit, Agent: arms{adder: rl.NStep(2, 1.5)}},
		"samples without end": {Env: bandit, Agent: arms{limiter: replay.MinSize(10)}},
		"Sequence(2, 3)":      {Env: bandit, Agent: arms{adder: rl.Sequence(2, 3)}},
	} {
		if _, err := rl.Define("rl-test-bad", s).Train(t.Context(), rl.Plan{Steps: 1}); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

type wrong struct{ arms }

func (wrong) Experience() (rl.Experience, error) { return rl.Experience{}, nil }
