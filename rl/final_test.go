package rl_test

import (
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// evaluating is called before each action of an evaluation of evaluatedArms.
var evaluating func()

type evaluated struct{ arms }

func (a evaluated) Policy(s rl.Spec) (rl.Policy, error) {
	p, err := a.arms.Policy(s)
	return evaluates{p}, err
}

type evaluates struct{ rl.Policy }

func (p evaluates) Act(obs []float32, rng *rand.Rand, action, extra []float32) {
	if rng == nil {
		evaluating()
	}
	p.Policy.Act(obs, rng, action, extra)
}

var evaluatedArms = rl.Define("rl-test-evaluated", rl.Setup[int]{Env: bandit, Agent: evaluated{}})

// TestLearnerDiesAtTheEnd: the node of the learner dies with the weights while the last evaluation plays.
func TestLearnerDiesAtTheEnd(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	var once sync.Once
	killed := make(chan bool)
	evaluating = func() {
		once.Do(func() {
			go func() {
				defer close(killed)
				at, err := system.NodeOf(k.Context()).Explain(k.Context(), "rl-test-evaluated.learner/end")
				if err != nil || len(at.Placed) == 0 {
					t.Error(at, err)
					return
				}
				for i := range 3 {
					if k.Cluster().Name(i+1) == at.Placed[len(at.Placed)-1].Node {
						k.Cluster().Kill(i + 1)
					}
				}
			}()
		})
		<-killed
	}
	r, err := evaluatedArms.Train(k.Context(), rl.Plan{Steps: 1000, Actors: 2, Name: "end", Progress: io.Discard})
	if err != nil || r.LearnerSteps < 400 || r.Weights.Steps != r.LearnerSteps || r.MeanReturn < 0.75 {
		t.Error(r, err)
	}
}
