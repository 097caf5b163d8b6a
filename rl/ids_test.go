package rl_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// submits is an agent whose learner submits something at each step, and remembers the ids.
type submits struct{ arms }

var submitted = map[raysys.TaskID]int{} // one learner at a time

type submitsLearner struct{ rl.Learner }

func (s submits) Learner(ctx context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	l, err := s.arms.Learner(ctx, spec, seed)
	return submitsLearner{l}, err
}

func (s submitsLearner) Learn(ctx context.Context, b rl.Batch) (rl.Learned, error) {
	submitted[raysys.Put(ctx, 1).ID()]++
	return s.Learner.Learn(ctx, b)
}

var submitting = rl.Define("rl-test-submits", rl.Setup[int]{Env: bandit, Agent: submits{}})

// TestIdsOfRuns: two runs of one program submit nothing under the same id, also beside branches of its own.
func TestIdsOfRuns(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	for range 2 {
		if _, err := submitting.Train(k.Context(), rl.Plan{Steps: 500, Actors: 2, Progress: io.Discard}); err != nil {
			t.Fatal(err)
		}
	}
	for id, n := range submitted {
		if n > 1 {
			t.Fatalf("%v was submitted %d times, one of %d ids", id, n, len(submitted))
		}
	}
	if len(submitted) < 400 {
		t.Errorf("%d ids", len(submitted))
	}
}

var (
	outer = rl.Define("rl-test-outer", rl.Setup[int]{Env: bandit, Agent: arms{}})
	inner = rl.Define("rl-test-outer/inner", rl.Setup[int]{Env: bandit, Agent: arms{}})
)

// TestWeightsOfAnotherExperiment: the weights of a run are not those of another experiment's run, whose names are the same parts, cut elsewhere.
func TestWeightsOfAnotherExperiment(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	ctx := k.Context()
	if _, err := inner.Train(ctx, rl.Plan{Steps: 1000, Until: 500, Actors: 2, Name: "run", Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Latest(ctx, "run").Get(ctx); err != nil {
		t.Error(err)
	}
	if w, err := outer.Latest(ctx, "inner/run").Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("the weights of step %d: %v", w.Steps, err)
	}
}
