package ppo_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
)

var poles = rl.Define("poles", rl.Setup[int]{Env: envs.CartPole, Agent: ppo.New(ppo.Config{Batch: 1024})})

// Without a runtime everything happens in the goroutine of the caller. The goal is a modest one here, so that the example is quick.
func Example() {
	run, err := poles.Train(context.Background(), rl.Plan{Steps: 30_000, Every: 1024, Stop: rl.MeanReturn(20, 60)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Solved, run.MeanReturn > 2*run.RandomReturn)
	// Output: true true
}
