// Command gym plays CartPole of gymnasium: a pool of grains, each with a Python process of 64 environments, and a policy in Go that learns
// by the cross-entropy method. Or it clones an expert: a net in Go learns the actions of a data set of Minari.
//
//	python3 -m venv venv && venv/bin/pip install gymnasium 'minari[hdf5,create]' pillow
//	RAYSYS_PYTHON=venv/bin/python go run ./examples/gym
//	RAYSYS_PYTHON=venv/bin/python go run ./examples/gym -clone  of a set that a policy of CartPole makes; -set ID: of that one
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
	seed := flag.Uint64("seed", 1, "of the policies that are tried, and of a clone")
	rate := flag.Bool("rate", false, "measure the environments instead")
	rounds := flag.Int("rounds", 5, "of -rate, in turn")
	cloned := flag.Bool("clone", false, "clone the expert of a data set of Minari instead")
	id := flag.String("set", "", "of -clone: the `id` of a set, which is downloaded where it is not here; empty: one that 20 episodes of CartPole make")
	flag.Parse()
	system.Main(func(ctx context.Context) error {
		if *rate {
			return rates(ctx, envs, max(*rounds, 1), 1, os.Stdout)
		}
		if *cloned || *id != "" {
			return clone(ctx, *id, 20, *seed, os.Stdout)
		}
		return learn(ctx, *seed, solved, os.Stdout)
	})
}
