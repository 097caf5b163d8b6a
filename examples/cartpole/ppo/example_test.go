package ppo_test

import (
	"fmt"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// One iteration: rollouts by the current weights, then an update by what they
// bring back. The rollouts depend on nothing but weights and stream, so they may
// run anywhere, and again.
func Example() {
	const seed = 1
	learner, err := ppo.NewLearner(ppo.Config{Seed: seed}, env.NewCartPole().Spec())
	if err != nil {
		fmt.Println(err)
		return
	}
	var trajs []ppo.Trajectory
	for k := range 8 {
		trajs = append(trajs, ppo.Rollout(learner.Weights(), env.NewCartPole(), 256, ppo.Stream(seed, 0, k)))
	}
	stats, err := learner.Update(trajs)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", stats.Version, "from at least 2048 steps:", stats.TotalSteps >= 2048)
	// Output: version 1 from at least 2048 steps: true
}
