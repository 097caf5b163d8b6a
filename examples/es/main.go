// Command es searches for policies by evolution strategies on a tree of grains, and by random weights beside it: a workload of the paper on Ray (Moritz et
// al. 2018, section 5.3).
//
//	go run ./examples/es                   CartPole and Pendulum, 16 players
//	go run ./examples/es -svg poles.svg    with the returns over steps on CartPole; -env Pendulum: on it
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/es -o json     on the workers of a cluster
//
// Random search gets as many steps as evolution took. On CartPole it needs fewer: one of some dozen random nets balances the pole. On Pendulum it finds
// nothing. The report goes to standard output, and progress to standard error. Exit codes: 0 ok, 1 goal not reached or interrupted, 2 usage. RAYSYS_* configure
// the node as they do every program's.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/es"
	"github.com/raysys/raysys/system"
)

// task is an environment with its goal.
type task struct {
	env    string
	search *es.Search
	goal   float64
	steps  int // at most
}

var tasks = []task{ // a package variable: every node knows the searches
	{"CartPole", es.Define("es-cartpole", envs.CartPole, es.Config{}), 475, 1_000_000},
	{"Pendulum", es.Define("es-pendulum", envs.Pendulum, es.Config{Pairs: 64, Sigma: 0.1, LearningRate: 0.05}), -250, 10_000_000},
}

// flags are what the command is told.
type flags struct {
	env, form, svg string
	plan           es.Plan // Steps: 0 unless told
}

func main() {
	var f flags
	flag.StringVar(&f.env, "env", "all", "CartPole, Pendulum or all")
	flag.IntVar(&f.plan.Workers, "workers", 16, "that play at the same time")
	flag.IntVar(&f.plan.Steps, "steps", 0, "of each environment at most; 0: a million of CartPole, and ten of Pendulum")
	flag.Uint64Var(&f.plan.Seed, "seed", 1, "of the searches")
	flag.StringVar(&f.svg, "svg", "", "file to draw the returns in, of CartPole unless -env says otherwise")
	flag.StringVar(&f.form, "o", "text", "form of the report: text or json")
	flag.Parse()
	if problem := f.check(); problem != "" || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: %s; there are no arguments: run with -h for the flags\n", problem)
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return f.run(ctx, os.Stdout, os.Stderr) })
}

// check is what is wrong with the flags.
func (f *flags) check() string {
	switch {
	case f.env != "all" && !slices.ContainsFunc(tasks, func(t task) bool { return t.env == f.env }):
		return "-env is CartPole, Pendulum or all"
	case f.form != "text" && f.form != "json":
		return "-o is text or json"
	case f.plan.Workers < 1 || f.plan.Steps < 0:
		return "-workers is 1 or more, and -steps 0 or more"
	}
	return ""
}

// found is what came of both searches, at equal steps.
type found struct {
	Env       string  `json:"env"`
	Goal      float64 `json:"goal"`
	Evolution *rl.Run `json:"evolution"`
	Random    *rl.Run `json:"random"`
}

// report is what -o json prints.
type report struct {
	Seed    uint64  `json:"seed"`
	Workers int     `json:"workers"`
	Found   []found `json:"found"`
}

// run is main without the process.
func (f *flags) run(ctx context.Context, stdout, stderr io.Writer) error {
	r := report{Seed: f.plan.Seed, Workers: f.plan.Workers}
	var missed error
	for _, t := range tasks {
		if f.env != "all" && f.env != t.env {
			continue
		}
		one, err := f.both(ctx, t, stderr)
		if err != nil {
			return err
		}
		if !one.Evolution.Solved {
			missed = fmt.Errorf("not learned: the mean return on %s is %.1f, and the goal %g", t.env, one.Evolution.MeanReturn, t.goal)
		}
		if f.svg != "" && len(r.Found) == 0 {
			if err := rl.Plot(f.svg, one.Evolution, one.Random); err != nil {
				return err
			}
		}
		r.Found = append(r.Found, one)
	}
	if f.form == "json" {
		return cmp.Or(json.NewEncoder(stdout).Encode(r), missed)
	}
	return cmp.Or(r.write(stdout), missed)
}

// write reports as text.
func (r *report) write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "mean return	goal	evolution	steps	random search	steps	random actions	\n")
	for _, f := range r.Found {
		fmt.Fprintf(w, "%s	%g	%.1f	%d	%.1f	%d	%.1f	\n",
			f.Env, f.Goal, f.Evolution.MeanReturn, f.Evolution.Steps, f.Random.MeanReturn, f.Random.Steps, f.Evolution.RandomReturn)
	}
	return w.Flush()
}

// both searches by evolution, and at random by as many steps.
func (f *flags) both(ctx context.Context, t task, stderr io.Writer) (found, error) {
	plan := f.plan
	plan.Goal = t.goal
	if plan.Steps == 0 {
		plan.Steps = t.steps
	}
	evolved, err := t.search.Train(ctx, plan)
	if err != nil {
		return found{}, err
	}
	fmt.Fprintf(stderr, "%s: evolution took %d steps, %.1f s\n", t.env, evolved.Steps, evolved.Took.Seconds())
	plan.Steps = evolved.Steps
	random, err := t.search.Random(ctx, plan)
	if err != nil {
		return found{}, err
	}
	random.Name += ", at random"
	fmt.Fprintf(stderr, "%s: random search took %d steps, %.1f s\n", t.env, random.Steps, random.Took.Seconds())
	return found{Env: t.env, Goal: t.goal, Evolution: evolved, Random: random}, nil
}
