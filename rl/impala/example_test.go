package impala_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/impala"
)

var balls = rl.Define("balls", rl.Setup[int]{Env: envs.Catch, Agent: impala.New(impala.Config{})})

// Without a runtime everything happens in the goroutine of the caller. Random actions catch one ball of five.
func Example() {
	run, err := balls.Train(context.Background(), rl.Plan{Steps: 100_000, Every: 1000, Stop: rl.MeanReturn(100, 0.5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Solved)
	// Output: true
}
