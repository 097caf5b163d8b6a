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
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/raysys/raysys"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs of this host, where raysys node does not
	"github.com/raysys/raysys/system"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

var errUsage = errors.New("run with -h for the flags")

// command is main without the process.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := parseAndRun(ctx, args, stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "error:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return system.ExitCode(err)
}

// wanted is what the flags say.
type wanted struct {
	run
	names  []string // of placements
	rounds int
	prices prices
	svg    string
}

func parseAndRun(ctx context.Context, args []string, stdout io.Writer) error {
	w := wanted{run: run{Seed: 1, Iterations: 10, Rollouts: 8, Steps: 256}, rounds: 1, prices: onDemand}
	names := "split,symmetric"
	flags := flag.NewFlagSet("hetero", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are one sentence, and command prints it
	flags.Uint64Var(&w.Seed, "seed", w.Seed, "of the run: the same one repeats it")
	flags.IntVar(&w.Iterations, "iterations", w.Iterations, "of rollouts and an update")
	flags.IntVar(&w.Rollouts, "rollouts", w.Rollouts, "in an iteration")
	flags.IntVar(&w.Steps, "steps", w.Steps, "of a rollout at least")
	flags.IntVar(&w.rounds, "rounds", w.rounds, "of all placements, of which the median counts")
	flags.StringVar(&names, "placement", names, "split, symmetric, or both")
	flags.Float64Var(&w.prices.CPU, "cpu-price", w.prices.CPU, "dollars an hour of a node without GPUs")
	flags.Float64Var(&w.prices.GPU, "gpu-price", w.prices.GPU, "dollars an hour of a node with a GPU")
	flags.StringVar(&w.svg, "svg", "", "file to draw where all ran")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Learn CartPole with rollouts on CPU nodes and the learner on a GPU node.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", err, errUsage)
	case flags.NArg() > 0:
		return fmt.Errorf("hetero takes no argument, and was given %q: %w", flags.Arg(0), errUsage)
	case w.Iterations < 1 || w.Rollouts < 1 || w.Steps < 1 || w.rounds < 1:
		return fmt.Errorf("iterations, rollouts, steps and rounds are 1 or more: %w", errUsage)
	case !(w.prices.CPU >= 0 && w.prices.GPU >= 0):
		return fmt.Errorf("prices are 0 or more: %w", errUsage)
	}
	for _, name := range strings.Split(names, ",") {
		if placements[name] == nil {
			return fmt.Errorf("there is no placement %q: %w", name, errUsage)
		}
		w.names = append(w.names, name)
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return err
	}
	return system.Run(ctx, cfg, func(ctx context.Context) error { return w.do(ctx, stdout) })
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
