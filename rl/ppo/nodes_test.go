package ppo_test

import (
	"testing"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
	"github.com/raysys/raysys/testkit"
)

var onNodes = rl.Define("ppo-test-nodes", rl.Setup[int]{Env: envs.CartPole, Agent: ppo.New(ppo.Config{})})

// TestNodes: actors of which each may be some updates behind learn as one that is not.
func TestNodes(t *testing.T) {
	for _, actors := range long.Form([]int{4}, []int{1, 4, 16}) {
		for seed := range long.Form[uint64](1, 3) {
			k := testkit.New(t, testkit.Nodes(3), testkit.Loose())
			run, err := onNodes.Train(k.Context(), rl.Plan{Steps: 300_000, Actors: actors, Seed: seed + 1, Stop: rl.MeanReturn(20, long.Form(150.0, 475))})
			if err != nil || !run.Solved {
				t.Error(err)
			}
			t.Log(run)
		}
	}
}
