// Command sgd fits a linear model by data-parallel gradient descent and checks the result against the closed form.
//
//	go run ./examples/sgd                  all three ways, in this process
//	go run ./examples/sgd -mode allreduce  the workers add up their gradients among themselves (grains/collective)
//	go run ./examples/sgd -mode sync       a parameter server makes a step of all workers' gradients (grains/params)
//	go run ./examples/sgd -mode async      it makes a step of each
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/sgd   (on the workers of a cluster)
//
// The report goes to standard output. Exit codes: 0 ok, 1 not fitted or interrupted, 2 usage. RAYSYS_* configure the node
// as they do every program's.
package main

import (
	"context"
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
	mode := "all"
	flags := flag.NewFlagSet("sgd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are one sentence, and run prints it
	flags.StringVar(&mode, "mode", mode, "allreduce, sync, async or all")
	flags.IntVar(&p.Workers, "workers", p.Workers, "how many workers share the data")
	flags.IntVar(&p.Steps, "steps", p.Steps, "steps of gradient descent")
	flags.IntVar(&p.Rows, "rows", p.Rows, "rows of data for each worker")
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "of the data")
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
	return system.Run(ctx, cfg, func(ctx context.Context) error {
		fmt.Fprintf(stdout, "%-10s %8s %6s %12s %14s %14s\n", "mode", "workers", "steps", "seconds", "loss/best - 1", "max distance")
		for _, name := range chosen {
			f, err := p.fit(ctx, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%-10s %8d %6d %12.3f %14.2g %14.2g\n", name, p.Workers, p.Steps, f.took.Seconds(), f.excess, f.distance)
			if err := f.check(name); err != nil {
				return err
			}
		}
		return nil
	})
}
