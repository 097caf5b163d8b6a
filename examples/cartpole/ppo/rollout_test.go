package ppo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// corridor counts its steps in its one observation, pays the step number, and
// ends after length steps, by turns done and truncated.
type corridor struct {
	length, at int
	episodes   int
}

func (c *corridor) Spec() env.Spec { return env.Spec{Obs: 1, Actions: 2, MaxSteps: c.length} }

func (c *corridor) Reset(_ *rand.Rand, obs []float64) {
	c.at, obs[0] = 0, 0
	c.episodes++
}

func (c *corridor) Step(_ int, obs []float64) (reward float64, done, truncated bool) {
	c.at++
	obs[0] = float64(c.at)
	over := c.at == c.length
	return float64(c.at), over && c.episodes%2 == 1, over && c.episodes%2 == 0
}

func TestRolloutPlaysWholeEpisodes(t *testing.T) {
	e := &corridor{length: 3}
	w := ppo.NewWeights(e.Spec(), 4, 1)
	w.Version = 7
	got := ppo.Rollout(w, e, 4, ppo.Stream(1, 0, 0))

	end := ppo.NewPolicy(w).Value([]float64{3})
	want := ppo.Trajectory{
		Version: 7, ObsSize: 1,
		Obs:     []float64{0, 1, 2, 0, 1, 2},
		Rewards: []float64{1, 2, 3, 1, 2, 3},
		Lengths: []int32{3, 3}, Returns: []float64{6, 6},
		Bootstraps: []float64{0, end},
		// What was sampled is another test's matter.
		Actions: got.Actions, LogProbs: got.LogProbs, Values: got.Values,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if end == 0 {
		t.Error("the truncated episode bootstraps zero: the test shows nothing")
	}
}

func TestRolloutPlaysAtLeastOneEpisode(t *testing.T) {
	e := &corridor{length: 5}
	got := ppo.Rollout(ppo.NewWeights(e.Spec(), 4, 1), e, 0, ppo.Stream(1, 0, 0))
	if got.Steps() != 5 {
		t.Errorf("%d steps, want one episode of 5", got.Steps())
	}
}

func TestRolloutRepeats(t *testing.T) {
	w := ppo.NewWeights(env.NewCartPole().Spec(), 64, 1)
	roll := func(iteration, k int) ppo.Trajectory {
		return ppo.Rollout(w, env.NewCartPole(), 256, ppo.Stream(1, iteration, k))
	}
	first := roll(3, 5)
	if diff := cmp.Diff(first, roll(3, 5)); diff != "" {
		t.Errorf("one stream, two trajectories:\n%s", diff)
	}
	for _, other := range []ppo.Trajectory{roll(3, 4), roll(2, 5)} {
		if cmp.Equal(first.Obs, other.Obs) {
			t.Error("two streams, one trajectory")
		}
	}
	if n := first.Steps(); n < 256 || n > 256+500-1 || cap(first.Actions) != 256+500-1 {
		t.Errorf("%d steps in room for %d", n, cap(first.Actions))
	}
}
