package envs_test

import (
	"fmt"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

func ExampleCartPole() {
	env := envs.CartPole(1)
	spec := env.Spec()
	fmt.Println(spec.Obs, "numbers,", spec.Actions, "actions, solved at", spec.Threshold)

	total := float32(0)
	for s := (rl.Step{Obs: env.Reset()}); !s.Done(); {
		action := 0
		if s.Obs[2]+0.5*s.Obs[3]+0.05*s.Obs[0]+0.1*s.Obs[1] > 0 { // the pole falls to the right: push there
			action = 1
		}
		s = env.Step(action)
		total += s.Reward
	}
	fmt.Println("return", total)
	// Output:
	// [4] numbers, 2 actions, solved at 475
	// return 500
}
