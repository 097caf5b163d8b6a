// Command gym plays CartPole of gymnasium: a pool of grains, each with a Python process of 64 environments, and a policy in Go that learns
// by the cross-entropy method.
//
//	python3 -m venv venv && venv/bin/pip install gymnasium
//	RAYSYS_PYTHON=venv/bin/python go run ./examples/gym
//	RAYSYS_PYTHON=venv/bin/python go run ./examples/gym -rate   how fast the environments are, with raysys and in Python alone
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/gym          on the nodes of a cluster
//
// RAYSYS_* configure the node as they do every program's.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/raysys/raysys/system"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the policies that are tried")
	rate := flag.Bool("rate", false, "measure the environments instead")
	rounds := flag.Int("rounds", 5, "of -rate, in turn")
	flag.Parse()
	system.Main(func(ctx context.Context) error {
		if *rate {
			return rates(ctx, envs, max(*rounds, 1), 1, os.Stdout)
		}
		return learn(ctx, *seed, os.Stdout)
	})
}
