package es_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/es"
	"github.com/raysys/raysys/system"
)

var balance = es.Define("balance", envs.CartPole, es.Config{}) // a package variable: every node knows it

// 16 players balance a pole, on as many nodes as there are.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		run, err := balance.Train(ctx, es.Plan{Steps: 300_000, Workers: 16, Goal: 475})
		if err == nil {
			fmt.Println(run.Solved)
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: true
}
