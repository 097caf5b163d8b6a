package dqn_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

var experiment = rl.Define("example", rl.Setup[int]{
	Env:   envs.Catch,
	Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true}),
})

func Example() {
	run, err := experiment.Train(context.Background(), rl.Plan{Steps: 20_000, Stop: rl.MeanReturn(100, 0.95)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Weights.Model, "catches nearly every ball:", run.MeanReturn >= 0.95)
	// Output: dqn 50-64-64-3 relu catches nearly every ball: true
}
