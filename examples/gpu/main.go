// Command gpu trains a network on a GPU, or on the CPU where there is none, in a grain that outlives its node.
//
//	go run -C examples/gpu .                               on the GPU of this host
//	go run -C examples/gpu . -sizes 784,4096,4096,10 -batch 1024 -steps 500
//	go run -C examples/gpu . -blas=false                   our own kernel multiplies the matrices, and not cuBLAS
//	RAYSYS_CONSUL=127.0.0.1:8500 go run -C examples/gpu .  on a node of a cluster that has a GPU
//
// The report goes to standard output: what computes, the loss and the time that a step takes. Exit codes: 0 ok, 1 failed or
// interrupted, 2 usage. RAYSYS_* configure the node as they do every program's; RAYSYS_GPUS is auto here unless it is set.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/examples/gpu/train"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs of this host
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

// sizes is the flag of that name.
type sizes []int

func (s *sizes) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*s)), " ", ","), "[]")
}

func (s *sizes) Set(text string) error {
	*s = nil
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("give the sizes of layers, such as 64,128,10")
		}
		*s = append(*s, n)
	}
	return nil
}

func parseAndRun(ctx context.Context, args []string, stdout io.Writer) error {
	job := train.Job{Spec: mlp.Spec{Sizes: []int{64, 256, 128, 10}, Batch: 128, Batches: 16, Rate: 0.001, Seed: 1}, Every: 50, BLAS: true}
	steps, name := 300, fmt.Sprintf("%016x", rand.Uint64())
	flags := flag.NewFlagSet("gpu", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are one sentence, and run prints it
	flags.Var((*sizes)(&job.Spec.Sizes), "sizes", "of the layers, inputs first and classes last")
	flags.IntVar(&job.Spec.Batch, "batch", job.Spec.Batch, "examples in a step")
	flags.Float64Var(&job.Spec.Rate, "rate", job.Spec.Rate, "of Adam")
	flags.Uint64Var(&job.Spec.Seed, "seed", job.Spec.Seed, "of the data and of the first weights")
	flags.IntVar(&job.Every, "every", job.Every, "steps from one snapshot to the next")
	flags.BoolVar(&job.BLAS, "blas", job.BLAS, "cuBLAS multiplies the matrices, where it is found")
	flags.IntVar(&steps, "steps", steps, "of training")
	flags.StringVar(&name, "name", name, "of the trainer: one that exists goes on where it is")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Train a network on a GPU, or on the CPU where there is none.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", err, errUsage)
	case flags.NArg() > 0:
		return fmt.Errorf("gpu takes no argument, and was given %q: %w", flags.Arg(0), errUsage)
	case steps < 1:
		return fmt.Errorf("steps is %d: give 1 or more: %w", steps, errUsage)
	}
	if err := job.Validate(); err != nil {
		return fmt.Errorf("%w: %w", err, errUsage)
	}
	if _, set := os.LookupEnv("RAYSYS_GPUS"); !set {
		if err := os.Setenv("RAYSYS_GPUS", "auto"); err != nil {
			return err
		}
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return err
	}
	return system.Run(ctx, cfg, func(ctx context.Context) error {
		fmt.Fprintf(stdout, "%6s %10s %10s  %s\n", "step", "loss", "ms/step", "device")
		_, err := train.Run(ctx, name, job, steps, func(p train.Progress) {
			fmt.Fprintf(stdout, "%6d %10.4f %10.3f  %s\n", p.Step, p.Loss, float64(p.Each)/float64(time.Millisecond), p.Where)
		})
		return err
	})
}
