package rl_test

import (
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

var (
	seedsMu  sync.Mutex
	envSeeds map[uint64]bool // that environments of lateArms were made with
)

var lateArms = rl.Define("rl-test-late", rl.Setup[int]{
	Env: func(seed uint64) rl.Env[int] {
		seedsMu.Lock()
		defer seedsMu.Unlock()
		envSeeds[seed] = true
		return bandit(seed)
	},
	Agent: arms{loss: func(steps int) float64 {
		if f := at.Load(); f != nil {
			(*f)(steps)
			if steps >= 2500 {
				return math.NaN()
			}
		}
		return 1
	}},
})

// TestGoesOnFromCheckpoint: a run whose learner diverges goes on by its name from the checkpoint before, with its counters, on other nodes and on the
// same. Its actors do not play the episodes of the first time again.
func TestGoesOnFromCheckpoint(t *testing.T) {
	for name, restart := range map[string]bool{"other nodes": true, "same nodes": false} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(2))
			envSeeds = map[uint64]bool{}
			nothing := func(int) {}
			at.Store(&nothing)
			defer at.Store(nil)
			plan := rl.Plan{Steps: 8000, Actors: 2, Name: "late", Progress: io.Discard}
			if _, err := lateArms.Train(k.Context(), plan); !errors.Is(err, rl.ErrDiverged) {
				t.Fatal(err)
			}
			if restart {
				for i := 1; i <= 2; i++ {
					k.Cluster().Kill(i)
					k.Cluster().Restart(i)
				}
			}
			before := envSeeds
			envSeeds = map[uint64]bool{}
			goesOn := 0 // after so many steps of the learner
			one := func(steps int) {
				goesOn = steps
				at.Store(nil) // one that goes on where it diverged does so again at this step
			}
			at.Store(&one)
			r, err := lateArms.Train(k.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if first := r.Points[0]; first.Steps < 1000 || first.LearnerSteps < 1000 || goesOn < 1000 || goesOn > 2500 {
				t.Errorf("it goes on at step %d of the learner, with %+v", goesOn, first)
			}
			same := 0
			for s := range envSeeds {
				if before[s] {
					same++
				}
			}
			if same > 1 { // random actions are measured in the same one
				t.Errorf("%d of %d environments are the same as before", same, len(envSeeds))
			}
		})
	}
}

// TestAnotherSeed: a name does not mix runs of two seeds.
func TestAnotherSeed(t *testing.T) {
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
			plan := rl.Plan{Steps: 3000, Actors: actors, Name: "seeds", Progress: io.Discard}
			abandon(t, k, plan)
			plan.Seed = 2
			if _, err := watched.Train(k.Context(), plan); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "seed 1") {
				t.Error(err)
			}
			plan.Seed = 1
			if _, err := watched.Train(k.Context(), plan); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForget: a run that is forgotten begins anew, with another seed too.
func TestForget(t *testing.T) {
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
			plan := rl.Plan{Steps: 3000, Actors: actors, Name: "forgotten", Progress: io.Discard}
			abandon(t, k, plan)
			if err := watched.Forget(k.Context(), plan.Name); err != nil {
				t.Fatal(err)
			}
			plan.Seed = 2
			if r, err := watched.Train(k.Context(), plan); err != nil || r.Points[0].Steps > 1000 {
				t.Errorf("%+v %v", r, err)
			}
			if err := watched.Forget(k.Context(), "of nobody"); err != nil {
				t.Error(err)
			}
		})
	}
	if err := watched.Forget(t.Context(), ""); !errors.Is(err, rl.ErrPlan) {
		t.Error(err)
	}
}

// TestFormsAlternate: a run of grains goes on in one goroutine, and again with grains, each from the checkpoint of the other.
func TestFormsAlternate(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	plan := rl.Plan{Steps: 6000, Actors: 2, Name: "forms", Progress: io.Discard}
	ctx, cancel := context.WithCancel(k.Context())
	stop := func(steps int) {
		if steps >= 300 {
			cancel()
		}
	}
	at.Store(&stop)
	defer at.Store(nil)
	if _, err := watched.Train(ctx, plan); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	stop = func(steps int) {
		if steps >= 1500 {
			panic("enough")
		}
	}
	plan.Actors = 1
	func() {
		defer func() { _ = recover() }()
		r, err := watched.Train(k.Context(), plan)
		t.Error(r, err)
	}()
	at.Store(nil)
	plan.Actors = 2
	r, err := watched.Train(k.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if first := r.Points[0]; first.Steps < 1500 || first.LearnerSteps < 1300 || r.Weights.Steps != r.LearnerSteps || r.LearnerSteps < 2600 {
		t.Errorf("it goes on with %+v, and ends with %d learner steps and weights of step %d", first, r.LearnerSteps, r.Weights.Steps)
	}
}

// TestTwoTrains: where two go on with one run the later one has it, and the earlier one hears of that.
func TestTwoTrains(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	plan := rl.Plan{Steps: 12_000, Actors: 2, Name: "two", Progress: io.Discard}
	later := raysys.Branch(k.Context(), 1)
	var once sync.Once
	var all sync.WaitGroup
	hook := func(steps int) {
		if steps < 200 {
			return
		}
		once.Do(func() {
			all.Go(func() {
				if r, err := watched.Train(later, plan); err != nil || r.Weights.Steps != r.LearnerSteps {
					t.Errorf("the later one: %v %v", r, err)
				}
			})
		})
	}
	at.Store(&hook)
	defer at.Store(nil)
	if _, err := watched.Train(k.Context(), plan); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "another Train") {
		t.Errorf("the earlier one: %v", err)
	}
	all.Wait()
}

// TestLogGoesOn: a run that goes on keeps the lines of its log.
func TestLogGoesOn(t *testing.T) {
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
			plan := rl.Plan{Steps: 8000, Actors: actors, Name: "log", Log: filepath.Join(t.TempDir(), "run.csv"), Progress: io.Discard}
			stop := func(steps int) {
				if steps >= 2500 {
					panic("enough")
				}
			}
			at.Store(&stop)
			func() {
				defer func() { _ = recover() }()
				_, _ = watched.Train(k.Context(), plan)
			}()
			at.Store(nil)
			before := read(t, plan.Log)
			r, err := watched.Train(k.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if after := read(t, plan.Log); len(before) < 150 || !strings.HasPrefix(after, before) || strings.Count(after, "steps,") != strings.Count(before, "steps,") ||
				strings.Count(after, "\n") != strings.Count(before, "\n")+len(r.Points) {
				t.Errorf("%s\nwas, and %d points later it is\n%s", before, len(r.Points), after)
			}
		})
	}
}
