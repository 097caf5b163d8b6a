package rl_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/testkit"
)

// TestUntil: a run is made in parts, by its name and by its folder, in one goroutine and on nodes: each part goes on where the one before ended, a part
// that is made already is measured alone, and after the last nothing is kept.
func TestUntil(t *testing.T) {
	for form, actors := range map[string]int{"single": 1, "nodes": 2} {
		for _, by := range []string{"name", "folder"} {
			t.Run(form+" by "+by, func(t *testing.T) {
				k := testkit.New(t, testkit.Nodes(min(actors-1, 1)*2))
				plan := rl.Plan{Steps: 4000, Actors: actors, Progress: io.Discard}
				if by == "name" {
					plan.Name = "parts"
				} else {
					plan.Dir = t.TempDir()
				}
				last := 0
				for i, until := range []int{1000, 2500, 2500, 0} {
					plan.Until = until
					r, err := chooses.Train(raysys.Branch(k.Context(), i), plan)
					if err != nil {
						t.Fatal(err)
					}
					to := min(until, 4000)
					if until == 0 {
						to = 4000
					}
					if r.Steps < to || r.Steps > to+200 || r.Resumed < last-200 || r.Resumed > last || (i > 0) != (r.Resumed > 0) || r.MeanReturn == 0 || len(r.Weights.Params) == 0 {
						t.Errorf("until %d: %d steps after %d, which were %d, return %v", until, r.Steps, r.Resumed, last, r.MeanReturn)
					}
					last = r.Steps
				}
				if plan.Dir != "" {
					if _, err := os.Stat(filepath.Join(plan.Dir, "checkpoint")); err == nil {
						t.Error("the checkpoint stays")
					}
				}
				plan.Until = 500
				if r, err := chooses.Train(raysys.Branch(k.Context(), 9), plan); err != nil || r.Resumed != 0 {
					t.Errorf("the name begins anew: %+v %v", r, err)
				}
			})
		}
	}
	for _, p := range []rl.Plan{{Steps: 10, Until: 5}, {Steps: 10, Until: -1, Name: "x"}} {
		if _, err := chooses.Train(t.Context(), p); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "Plan.Until") {
			t.Error(err)
		}
	}
}

// TestVariant: a variant trains in the goroutine of the caller, on a cluster too, and repeats; by its name another node goes on with it, and Forget of the
// experiment drops it.
func TestVariant(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	variant := func() *rl.Experiment {
		return rl.Variant(chooses, rl.Setup[int]{Env: bandit, Agent: arms{}})
	}
	plan := rl.Plan{Steps: 2000, Progress: io.Discard, Seed: 4}
	a, err := variant().Train(k.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := variant().Train(t.Context(), plan); err != nil || b.MeanReturn != a.MeanReturn || b.LearnerSteps != a.LearnerSteps {
		t.Errorf("%+v\n%+v %v", a, b, err)
	}
	plan.Name, plan.Until = "variant", 1000
	for i, resumed := range []int{0, 1000, 0} {
		if i == 2 {
			if err := chooses.Forget(k.Context(), plan.Name); err != nil {
				t.Fatal(err)
			}
		}
		r, err := variant().Train(raysys.Branch(k.Cluster().Node(i%2+1).Context(t.Context()), i), plan)
		if err != nil || r.Resumed != resumed {
			t.Errorf("call %d: %+v %v", i, r, err)
		}
	}
	plan.Actors = 2
	if _, err := variant().Train(k.Context(), plan); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "one actor") {
		t.Error(err)
	}
	if _, err := rl.Variant(chooses, rl.Setup[int]{Env: bandit}).Train(k.Context(), rl.Plan{Steps: 1}); !errors.Is(err, rl.ErrPlan) {
		t.Error(err)
	}
}

var early = rl.Define("rl-test-early", rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{MinSize: 200})})

// TestBegunTooEarly: a run that was ended before the learner's first step begins anew, so that it has enough items to learn before it is over.
func TestBegunTooEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	plan := rl.Plan{Steps: 300, Every: 50, Name: "early", Progress: ends{cancel}}
	if r, err := early.Train(ctx, plan); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v %v", r, err)
	}
	plan.Progress = io.Discard
	if r, err := early.Train(t.Context(), plan); err != nil || r.LearnerSteps == 0 || r.Resumed != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// ends ends a run at its first point.
type ends struct{ end func() }

func (e ends) Write(p []byte) (int, error) {
	e.end()
	return len(p), nil
}
