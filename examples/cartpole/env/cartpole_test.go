package env_test

import (
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/examples/cartpole/env"
)

//go:embed testdata/golden.json
var golden []byte

// TestCartPoleGolden replays trajectories of Gymnasium 1.4.0, written by
// testdata/golden.py, from each of their checkpoints to the next. Each stretch
// starts from the reference state because a pole without feedback amplifies a
// rounding of another libm by e^4 per simulated second: 1e-9 is lost after four.
func TestCartPoleGolden(t *testing.T) {
	var runs []struct {
		Name       string
		Start      [4]float64
		Actions    string
		States     [][5]float64 // step number, then the state after that step
		Return     float64
		Terminated bool
	}
	if err := json.Unmarshal(golden, &runs); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		t.Run(run.Name, func(t *testing.T) {
			e := env.NewCartPole()
			obs := make([]float64, 4)
			from, state, total := 0, run.Start, 0.0
			for _, want := range run.States {
				to := int(want[0])
				e.ResetTo(state, obs)
				for i, a := range run.Actions[from:to] {
					reward, done, _ := e.Step(int(a-'0'), obs)
					total += reward
					if step := from + i + 1; done != (run.Terminated && step == len(run.Actions)) {
						t.Fatalf("step %d: done %v", step, done)
					}
				}
				if diff := cmp.Diff(want[1:], obs, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
					t.Fatalf("state after step %d (-reference +got):\n%s", to, diff)
				}
				from, state = to, [4]float64(want[1:])
			}
			if from != len(run.Actions) || total != run.Return {
				t.Errorf("%d steps with return %v, reference %d and %v", from, total, len(run.Actions), run.Return)
			}
		})
	}
}

// balance keeps the pole up for a whole episode from any start.
func balance(obs []float64) int {
	if obs[2]+0.5*obs[3]+0.05*obs[0]+0.1*obs[1] > 0 {
		return 1
	}
	return 0
}

func TestCartPoleTruncatesApartFromDone(t *testing.T) {
	e := env.NewCartPole()
	obs := make([]float64, 4)
	rng := rand.New(rand.NewPCG(3, 0))
	for episode := range 3 {
		e.Reset(rng, obs)
		steps := 0
		for done, truncated := false, false; !done && !truncated; steps++ {
			_, done, truncated = e.Step(balance(obs), obs)
			if done {
				t.Fatalf("episode %d: done after %d steps", episode, steps+1)
			}
		}
		if want := e.Spec().MaxSteps; steps != want {
			t.Errorf("episode %d: truncated after %d steps, want %d", episode, steps, want)
		}
	}
}

// A pole that falls in the very step of the limit has fallen: bootstrapping its
// value would teach that falling late is safe.
func TestCartPoleDoneWinsOverTruncated(t *testing.T) {
	e := env.NewCartPole()
	obs := make([]float64, 4)
	rng := rand.New(rand.NewPCG(4, 0))
	// A search: pushing left from some late step on makes some episode fall at
	// the limit exactly.
	for try := range 400 {
		e.Reset(rng, obs)
		for step := 1; ; step++ {
			action := balance(obs)
			if step > 480+try%20 {
				action = 0
			}
			_, done, truncated := e.Step(action, obs)
			if done && truncated {
				t.Fatalf("step %d is both done and truncated", step)
			}
			if done && step == e.Spec().MaxSteps {
				return
			}
			if done || truncated {
				break
			}
		}
	}
	t.Fatal("no episode fell at the limit")
}

func TestCartPolePanics(t *testing.T) {
	obs := make([]float64, 4)
	for name, misuse := range map[string]func(*env.CartPole){
		"step before reset": func(e *env.CartPole) { e.Step(0, obs) },
		"step after done": func(e *env.CartPole) {
			e.ResetTo([4]float64{2.39, 9, 0, 0}, obs)
			if _, done, _ := e.Step(1, obs); !done {
				t.Error("cart still on the track")
			}
			e.Step(0, obs)
		},
		"unknown action": func(e *env.CartPole) { e.ResetTo([4]float64{}, obs); e.Step(2, obs) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(env.NewCartPole())
		})
	}
}

func TestCartPoleRepeatsBySeed(t *testing.T) {
	play := func(seed uint64) (starts [][4]float64, total float64) {
		e := env.NewCartPole()
		rng := rand.New(rand.NewPCG(seed, 0))
		obs := make([]float64, 4)
		for range 5 {
			e.Reset(rng, obs)
			starts = append(starts, [4]float64(obs))
			for done, truncated := false, false; !done && !truncated; {
				var reward float64
				reward, done, truncated = e.Step(rng.IntN(2), obs)
				total += reward
			}
		}
		return starts, total
	}
	starts, total := play(1)
	again, totalAgain := play(1)
	if diff := cmp.Diff(starts, again); diff != "" || total != totalAgain {
		t.Errorf("one seed, two runs (returns %v and %v):\n%s", total, totalAgain, diff)
	}
	other, _ := play(2)
	if cmp.Equal(starts, other) {
		t.Error("two seeds, one run")
	}
	for _, s := range starts {
		for _, v := range s {
			if v < -0.05 || v >= 0.05 {
				t.Errorf("start %v outside [-0.05, 0.05)", s)
			}
		}
	}
}

func BenchmarkCartPoleStep(b *testing.B) {
	e := env.NewCartPole()
	rng := rand.New(rand.NewPCG(1, 0))
	obs := make([]float64, 4)
	e.Reset(rng, obs)
	b.ReportAllocs()
	for b.Loop() {
		if _, done, truncated := e.Step(balance(obs), obs); done || truncated {
			e.Reset(rng, obs)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}
