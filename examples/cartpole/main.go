// Command cartpole learns to balance a pole on a cart and then serves the policy it found.
//
//	go run ./examples/cartpole -seed 1
//	go run ./examples/cartpole -o json
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/cartpole   (on the workers of a cluster)
//
// The report goes to standard output, how it goes to standard error. Exit codes: 0 ok, 1 not learned or interrupted,
// 2 usage. RAYSYS_* configure the node as they do every program's; -seed stands above RAYSYS_SEED.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/raysys/raysys/examples/cartpole/demo"
	"github.com/raysys/raysys/system"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal cancels ctx; after it the default is back, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := parseAndRun(ctx, args, stdout, stderr)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "error:", err)
	if errors.Is(err, demo.ErrUsage) || errors.Is(err, errFlags) {
		return 2
	}
	return system.ExitCode(err)
}

var errFlags = errors.New("run with -h for the flags")

func parseAndRun(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := demo.Defaults()
	flags := flag.NewFlagSet("cartpole", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are one sentence, and run prints it
	o.Bind(flags)
	flags.Var(&o.Form, "o", "form of the report: text or json")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Learn CartPole-v1 by tasks and grains, then serve the policy.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", err, errFlags)
	case flags.NArg() > 0:
		return fmt.Errorf("cartpole takes no argument, and was given %q: %w", flags.Arg(0), errFlags)
	}
	return demo.Run(ctx, o, stdout, stderr)
}
