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
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/examples/gpu/train"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs of this host
	"github.com/raysys/raysys/system"
)

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

// flags are what the command is told.
type flags struct {
	job   train.Job
	steps int
	name  string
}

func define(set *flag.FlagSet) *flags {
	spec := mlp.Spec{Sizes: []int{64, 256, 128, 10}, Batch: 128, Batches: 16, Rate: 0.001, Seed: 1}
	f := &flags{job: train.Job{Spec: spec, Every: 50, BLAS: true}}
	set.Var((*sizes)(&f.job.Spec.Sizes), "sizes", "of the layers, inputs first and classes last")
	set.IntVar(&f.job.Spec.Batch, "batch", f.job.Spec.Batch, "examples in a step")
	set.Float64Var(&f.job.Spec.Rate, "rate", f.job.Spec.Rate, "of Adam")
	set.Uint64Var(&f.job.Spec.Seed, "seed", f.job.Spec.Seed, "of the data and of the first weights")
	set.IntVar(&f.job.Every, "every", f.job.Every, "steps from one snapshot to the next")
	set.BoolVar(&f.job.BLAS, "blas", f.job.BLAS, "cuBLAS multiplies the matrices, where it is found")
	set.IntVar(&f.steps, "steps", 300, "of training")
	set.StringVar(&f.name, "name", fmt.Sprintf("%016x", rand.Uint64()), "of the trainer: one that exists goes on where it is")
	return f
}

// check says what is wrong with the flags.
func (f *flags) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("gpu takes no argument, and was given %q", args[0])
	case f.steps < 1:
		return fmt.Errorf("steps is %d: give 1 or more", f.steps)
	}
	return f.job.Validate()
}

func main() {
	f := define(flag.CommandLine)
	flag.Parse()
	if err := f.check(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v: run with -h for the flags\n", err)
		os.Exit(2)
	}
	if _, set := os.LookupEnv("RAYSYS_GPUS"); !set {
		_ = os.Setenv("RAYSYS_GPUS", "auto") // the name is valid
	}
	system.Main(func(ctx context.Context) error { return f.run(ctx, os.Stdout) })
}

// run trains, and reports as it does.
func (f *flags) run(ctx context.Context, stdout io.Writer) error {
	fmt.Fprintf(stdout, "%6s %10s %10s  %s\n", "step", "loss", "ms/step", "device")
	_, err := train.Run(ctx, f.name, f.job, f.steps, func(p train.Progress) {
		fmt.Fprintf(stdout, "%6d %10.4f %10.3f  %s\n", p.Step, p.Loss, float64(p.Each)/float64(time.Millisecond), p.Where)
	})
	return err
}
