package sweep_test

import (
	"context"
	"fmt"
	"io"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/sweep"
	"github.com/raysys/raysys/system"
)

// A sweep is a package variable: every node knows it.
var rates = sweep.Define("catch-rates", sweep.Space{
	"rate":  sweep.Log(1e-5, 1e-1),
	"nstep": sweep.Choice(1, 3, 5),
}, func(s sweep.Setting) rl.Setup[int] {
	return rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{LearningRate: s.Float("rate"), NStep: s.Int("nstep"), MinSize: 200})}
})

// A rung of 500 steps, then 1,500 for the best third, then 4,500 for the best third of those.
func ExampleSweep_Run() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		found, err := rates.Run(ctx, sweep.Plan{Trials: 9, Steps: 4500, Search: sweep.ASHA(3, 500), Progress: io.Discard})
		if err != nil {
			return err
		}
		fmt.Println(len(found.Trials), "trials, of which the best made", found.Best.Last().Steps, "steps")
		return nil // fmt.Println(found) prints a table of them, found.Plot draws what was found when
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 9 trials, of which the best made 4500 steps
}
