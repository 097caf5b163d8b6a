// Command sgd fits a linear model by data-parallel gradient descent and checks the result against the closed form.
//
//	go run ./examples/sgd                  all three ways, in this process
//	go run ./examples/sgd -mode allreduce  the workers add up their gradients among themselves (grains/collective)
//	go run ./examples/sgd -mode sync       a parameter server makes a step of all workers' gradients (grains/params)
//	go run ./examples/sgd -mode async      it makes a step of each
//	go run ./examples/sgd -o json          steps a second, bytes moved and loss of each mode
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/sgd   (on the workers of a cluster)
//
// Bytes moved are those of gradients that workers handed over, and of sums or weights that they were given; how often the network carries them is in no
// figure. A worker that was lost and started anew counts from its new start. The report goes to standard output. Exit codes: 0 ok, 1 not fitted or interrupted, 2 usage. RAYSYS_* configure the node
// as they do every program's.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/raysys/raysys/system"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

var errUsage = errors.New("run with -h for the flags")

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
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

func parseAndRun(ctx context.Context, args []string, stdout io.Writer) error {
	p := problem{Seed: 1, Workers: 4, Rows: 500, Features: 10, Steps: 80}
	mode, form := "all", "text"
	flags := flag.NewFlagSet("sgd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are one sentence, and run prints it
	flags.StringVar(&mode, "mode", mode, "allreduce, sync, async or all")
	flags.IntVar(&p.Workers, "workers", p.Workers, "how many workers share the data")
	flags.IntVar(&p.Steps, "steps", p.Steps, "steps of gradient descent")
	flags.IntVar(&p.Rows, "rows", p.Rows, "rows of data for each worker")
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "of the data")
	flags.StringVar(&form, "o", form, "form of the report: text or json")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Fit a linear model by data-parallel gradient descent, and check it against the closed form.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", err, errUsage)
	case flags.NArg() > 0:
		return fmt.Errorf("sgd takes no argument, and was given %q: %w", flags.Arg(0), errUsage)
	case form != "text" && form != "json":
		return fmt.Errorf("-o is %q, and has to be text or json: %w", form, errUsage)
	case p.Workers < 1 || p.Steps < 1 || p.Rows < 1:
		return fmt.Errorf("workers, steps and rows are 1 or more: %w", errUsage)
	}
	chosen := strings.Split(mode, ",")
	if mode == "all" {
		chosen = []string{"allreduce", "sync", "async"}
	}
	for _, name := range chosen {
		if ways[name] == nil {
			return fmt.Errorf("there is no mode %q: %w", name, errUsage)
		}
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return err
	}
	return system.Run(ctx, cfg, func(ctx context.Context) error { return p.report(ctx, chosen, form, stdout) })
}

// figures are what -o json prints of a mode.
type figures struct {
	Mode    string  `json:"mode"`
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"steps_per_second"`
	Moved   int     `json:"bytes_moved"`
	Loss    float64 `json:"loss"`
	Excess  float64 `json:"loss_over_least"` // less 1
}

// report fits by each of the modes and prints the results: as JSON when all have ended, as text as each does.
func (p problem) report(ctx context.Context, modes []string, form string, stdout io.Writer) error {
	var list []figures
	var missed error
	if form == "text" {
		fmt.Fprintf(stdout, "%-10s %8s %6s %9s %10s %12s %14s %14s %14s\n", "mode", "workers", "steps", "seconds", "steps/s", "bytes moved", "loss", "loss/best - 1", "max distance")
	}
	for _, name := range modes {
		f, err := p.fit(ctx, name)
		if err != nil {
			return err
		}
		missed = cmp.Or(missed, f.check(name))
		if form == "json" {
			list = append(list, figures{name, f.Steps, f.took.Seconds(), f.rate(), f.Moved, f.loss, f.excess})
			continue
		}
		fmt.Fprintf(stdout, "%-10s %8d %6d %9.3f %10.0f %12d %14.8f %14.2g %14.2g\n", name, p.Workers, f.Steps, f.took.Seconds(), f.rate(), f.Moved, f.loss, f.excess, f.distance)
		if missed != nil {
			return missed
		}
	}
	if form == "json" {
		err := json.NewEncoder(stdout).Encode(struct {
			Seed    uint64    `json:"seed"`
			Workers int       `json:"workers"`
			Modes   []figures `json:"modes"`
		}{p.Seed, p.Workers, list})
		missed = cmp.Or(err, missed)
	}
	return missed
}
