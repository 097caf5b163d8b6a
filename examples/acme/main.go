// Command acme trains the DQN of Acme, with returns of five steps and prioritised replay, on Catch.
//
//	go run ./examples/acme                                              in one goroutine: it repeats bit for bit by -seed
//	go run ./examples/acme -actors 16                                   actors and learner are grains
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/acme -actors 16      on the nodes of a cluster
//
// The report goes to standard output, and progress to standard error. Exit codes: 0 ok, 1 not learned or interrupted, 2 usage. RAYSYS_* configure
// the node as they do every program's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/system"
)

var agent = rl.Define("catch-dqn", rl.Setup[int]{ // a package variable: every node knows it
	Env:   envs.Catch,
	Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true}),
})

func main() {
	plan := rl.Plan{Stop: rl.MeanReturn(100, 0.95)} // over 100 fresh episodes; random actions return -0.6, and the best ones 1
	flag.IntVar(&plan.Steps, "steps", 20_000, "of the environment at most")
	flag.IntVar(&plan.Actors, "actors", 1, "that play at the same time")
	flag.Uint64Var(&plan.Seed, "seed", 1, "of the run")
	flag.StringVar(&plan.Name, "name", "", "of the run: one that has not ended goes on from its last checkpoint")
	plot := flag.String("plot", "", "SVG file to draw the run in")
	form := flag.String("o", "text", "form of the report: text or json")
	flag.Parse()
	if *form != "text" && *form != "json" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "error: -o is text or json, and there are no arguments: run with -h for the flags")
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return train(ctx, plan, *form == "json", *plot, os.Stdout) })
}

// train makes a run, draws it where plot names a file, and reports it.
func train(ctx context.Context, plan rl.Plan, asJSON bool, plot string, out io.Writer) error {
	run, err := agent.Train(ctx, plan)
	if err != nil {
		return err
	}
	if plot != "" {
		if err := run.Plot(plot); err != nil {
			return err
		}
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(map[string]any{
			"mean_return": run.MeanReturn, "random_return": run.RandomReturn, "steps": run.Steps, "learner_steps": run.LearnerSteps,
			"actors": run.Actors, "seed": run.Seed,
		})
	} else {
		_, err = fmt.Fprintf(out, "mean return %.2f over fresh episodes (random actions: %.2f)\n%d steps of the environment (actors: %d), %d of the learner, %.1f s\n",
			run.MeanReturn, run.RandomReturn, run.Steps, run.Actors, run.LearnerSteps, run.Took.Seconds())
	}
	if err == nil && run.MeanReturn < run.Goal {
		err = fmt.Errorf("not learned: the mean return is %.2f, and the goal %g", run.MeanReturn, run.Goal)
	}
	return err
}
