package rl_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/rl"
)

func TestRunAsJSON(t *testing.T) {
	run := catchRun(3, 16, 4_000)
	run.Weights.Params = make([]float32, 10)
	run.BaselineSteps, run.EvaluationSteps = 90, 900
	want := `{"name":"catch-dqn","seed":3,"actors":16,"solved":true,"mean_return":0.98,"random_return":-0.609375,"steps":12400,"learner_steps":3100,"episodes":1377,"baseline_steps":90,"evaluation_steps":900,"seconds":12.3}`
	for _, v := range []any{run, *run} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("the run is %s, %v, want\n%s", got, err, want)
		}
	}
	run.MeanReturn = nan
	var back struct {
		Mean *float64 `json:"mean_return"`
	}
	b, err := json.Marshal(run)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.Mean != nil {
		t.Errorf("a mean return that is NaN came back as %v, %v", back.Mean, err)
	}
}

func TestRunAsText(t *testing.T) {
	run := catchRun(3, 16, 4_000)
	for _, v := range []any{run, *run} {
		want := `catch-dqn on Catch, seed 3, 16 actors
mean return 0.98, random -0.6094, goal 0.95: reached
12400 steps in 12.3 s, 1008 steps/s, 1377 episodes
3100 learner steps, 0.25 per step`
		if diff := cmp.Diff(want, fmt.Sprint(v)); diff != "" {
			t.Error(diff)
		}
	}
	run.BaselineSteps, run.EvaluationSteps, run.RandomReturn = 90, 900, nan
	want := `catch-dqn on Catch, seed 3, 16 actors
mean return 0.98, random not known, goal 0.95: reached
12400 steps in 12.3 s, 1008 steps/s, 1377 episodes; 90 more of random actions, 900 of evaluations
3100 learner steps, 0.25 per step`
	if diff := cmp.Diff(want, fmt.Sprint(run)); diff != "" {
		t.Error(diff)
	}
	want = `x on CartPole, seed 0, 1 actor
mean return 0, random 0, threshold 475
0 steps in 0 s, 0 episodes
0 learner steps, 0 per step`
	if diff := cmp.Diff(want, rl.Run{Name: "x", Env: rl.Spec{Name: "CartPole", Threshold: 475}}.String()); diff != "" {
		t.Error(diff)
	}
}
