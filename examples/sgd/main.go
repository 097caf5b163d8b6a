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
	"strings"

	"github.com/raysys/raysys/system"
)

// flags are what the command is told.
type flags struct {
	problem
	mode, form string
	modes      []string // of mode
}

func define(set *flag.FlagSet) *flags {
	f := &flags{problem: problem{Seed: 1, Workers: 4, Rows: 500, Features: 10, Steps: 80}}
	set.StringVar(&f.mode, "mode", "all", "allreduce, sync, async or all")
	set.IntVar(&f.Workers, "workers", f.Workers, "how many workers share the data")
	set.IntVar(&f.Steps, "steps", f.Steps, "steps of gradient descent")
	set.IntVar(&f.Rows, "rows", f.Rows, "rows of data for each worker")
	set.Uint64Var(&f.Seed, "seed", f.Seed, "of the data")
	set.StringVar(&f.form, "o", "text", "form of the report: text or json")
	return f
}

// check says what is wrong with the flags.
func (f *flags) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("sgd takes no argument, and was given %q", args[0])
	case f.form != "text" && f.form != "json":
		return fmt.Errorf("-o is %q, and has to be text or json", f.form)
	case f.Workers < 1 || f.Steps < 1 || f.Rows < 1:
		return errors.New("workers, steps and rows are 1 or more")
	}
	if f.modes = strings.Split(f.mode, ","); f.mode == "all" {
		f.modes = []string{"allreduce", "sync", "async"}
	}
	for _, name := range f.modes {
		if ways[name] == nil {
			return fmt.Errorf("there is no mode %q", name)
		}
	}
	return nil
}

func main() {
	f := define(flag.CommandLine)
	flag.Parse()
	if err := f.check(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v: run with -h for the flags\n", err)
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return f.report(ctx, f.modes, f.form, os.Stdout) })
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
