// Command hetero learns CartPole on nodes that are not alike: rollouts on nodes without GPUs, the learner on one that has them. It
// prints what that costs beside nodes that are all alike, by a table of prices, and draws where all ran.
//
//	go build -o bin/hetero ./examples/hetero
//	bin/raysys node --app bin/hetero --labels kind=cpu            on hosts without GPUs
//	bin/raysys node --app bin/hetero --labels kind=gpu            on hosts with GPUs (--gpus fake:h100x1 makes one up)
//	RAYSYS_CONSUL=127.0.0.1:8500 bin/hetero -svg where.svg
//
// The report goes to standard output. Exit codes: 0 ok, 1 failed or interrupted, 2 usage. The busy times are measured; cost.go
// says what is assumed. Clocks of the hosts that differ shift the rows of the drawing, and no cost.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs of this host, where raysys node does not
	"github.com/raysys/raysys/system"
)

// wanted is what the flags say.
type wanted struct {
	run
	placements string
	names      []string // of placements
	rounds     int
	prices     prices
	svg        string
}

func define(set *flag.FlagSet) *wanted {
	w := &wanted{run: run{Seed: 1, Iterations: 10, Rollouts: 8, Steps: 256}, prices: onDemand}
	set.Uint64Var(&w.Seed, "seed", w.Seed, "of the run: the same one repeats it")
	set.IntVar(&w.Iterations, "iterations", w.Iterations, "of rollouts and an update")
	set.IntVar(&w.Rollouts, "rollouts", w.Rollouts, "in an iteration")
	set.IntVar(&w.Steps, "steps", w.Steps, "of a rollout at least")
	set.IntVar(&w.rounds, "rounds", 1, "of all placements, of which the median counts")
	set.StringVar(&w.placements, "placement", "split,symmetric", "split, symmetric, or both")
	set.Float64Var(&w.prices.CPU, "cpu-price", w.prices.CPU, "dollars an hour of a node without GPUs")
	set.Float64Var(&w.prices.GPU, "gpu-price", w.prices.GPU, "dollars an hour of a node with a GPU")
	set.StringVar(&w.svg, "svg", "", "file to draw where all ran")
	return w
}

// check says what is wrong with the flags.
func (w *wanted) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("hetero takes no argument, and was given %q", args[0])
	case w.Iterations < 1 || w.Rollouts < 1 || w.Steps < 1 || w.rounds < 1:
		return errors.New("iterations, rollouts, steps and rounds are 1 or more")
	case !(w.prices.CPU >= 0 && w.prices.GPU >= 0):
		return errors.New("prices are 0 or more")
	}
	w.names = strings.Split(w.placements, ",")
	for _, name := range w.names {
		if placements[name] == nil {
			return fmt.Errorf("there is no placement %q", name)
		}
	}
	return nil
}

func main() {
	w := define(flag.CommandLine)
	flag.Parse()
	if err := w.check(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v: run with -h for the flags\n", err)
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return w.do(ctx, os.Stdout) })
}

// measured is a run of a placement, with its cost.
type measured struct {
	learned
	cost cost
}

// measure runs the placements in turn, as often as rounds says, and keeps of each the run that lasted the median time.
func (w wanted) measure(ctx context.Context) (map[string]measured, error) {
	all := map[string][]measured{}
	for range w.rounds {
		for _, name := range w.names {
			r := w.run
			r.Placement = name
			l, err := learn(ctx, r)
			if errors.Is(err, raysys.ErrNoCapacity) {
				return nil, fmt.Errorf("%w: %s needs nodes with --labels kind=%s, and one with a GPU for the learner", err, name, map[string]string{"split": "cpu", "symmetric": "gpu"}[name])
			} else if err != nil {
				return nil, err
			}
			all[name] = append(all[name], measured{l, costOf(r, l.Spans, w.prices)})
		}
	}
	median := map[string]measured{}
	for name, list := range all {
		slices.SortFunc(list, func(a, b measured) int { return cmp.Compare(a.cost.Lasts, b.cost.Lasts) })
		median[name] = list[len(list)/2]
	}
	return median, nil
}

// do measures the placements, reports them and draws them.
func (w wanted) do(ctx context.Context, stdout io.Writer) error {
	median, err := w.measure(ctx)
	if err != nil {
		return err
	}
	costs, spans := map[string]cost{}, map[string][]span{}
	for _, name := range w.names {
		m := median[name]
		costs[name], spans[name] = m.cost, m.Spans
		fmt.Fprintf(stdout, "%s: %d steps, mean return %.1f\n", name, m.Stats.TotalSteps, m.Stats.MeanReturn)
	}
	report(stdout, w.names, costs)
	if w.svg == "" {
		return nil
	}
	var b bytes.Buffer
	if err := draw(&b, w.names, spans); err != nil {
		return err
	}
	return os.WriteFile(w.svg, b.Bytes(), 0o644)
}
