package rl_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// newest are the steps of the newest weights that acted in a batch.
var newest atomic.Int64

type attentive struct{ arms }

func (a attentive) Learner(ctx context.Context, s rl.Spec, seed uint64) (rl.Learner, error) {
	l, err := a.arms.Learner(ctx, s, seed)
	return attends{l}, err
}

type attends struct{ rl.Learner }

func (l attends) Learn(ctx context.Context, b rl.Batch) (rl.Learned, error) {
	for i := range b.Steps {
		newest.Store(max(newest.Load(), int64(b.Steps[i].Acted)))
	}
	return l.Learner.Learn(ctx, b)
}

var shortTurns = rl.Define("rl-test-short-turns", rl.Setup[int]{Env: bandit, Agent: attentive{}})

// TestShortTurns: an actor whose turns are shorter than a look for weights takes new ones all the same. Each of 16 has turns of 25 steps here.
func TestShortTurns(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	newest.Store(0)
	if _, err := shortTurns.Train(k.Context(), rl.Plan{Steps: 4000, Actors: 16, Progress: io.Discard}); err != nil || newest.Load() < 100 {
		t.Errorf("the newest weights that acted were of step %d: %v", newest.Load(), err)
	}
}

// TestSamplesForItems: the turn of the learner that is cancelled at the end of a run learns nothing twice.
func TestSamplesForItems(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	for range 10 {
		r, err := chooses.Train(k.Context(), rl.Plan{Steps: 3000, Actors: 2, Progress: io.Discard})
		if err != nil || r.LearnerSteps > 1500 || r.LearnerSteps < 1400 {
			t.Errorf("%v %v", r, err)
		}
	}
}
