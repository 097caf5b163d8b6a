// Command torch trains a classifier of PyTorch in a grain: on a GPU where a node has one, else on the CPU. What it has learned is a State of
// the grain, so that a trainer whose process or node has ended goes on where it was.
//
//	python3 -m venv venv && venv/bin/pip install torch numpy
//	RAYSYS_PYTHON=venv/bin/python go run ./examples/torch
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/torch -name run-7   (on the nodes of a cluster, which go on with the same name)
//
// RAYSYS_* configure the node as they do every program's; RAYSYS_GPUS is auto here unless it is set.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/raysys/raysys"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs of this host
	"github.com/raysys/raysys/system"
)

// limit is for a call that starts Python, imports PyTorch and trains.
const limit = 5 * time.Minute

func main() {
	steps := flag.Int("steps", 1500, "of training")
	every := flag.Int("every", 300, "steps from one snapshot to the next")
	name := flag.String("name", fmt.Sprintf("%016x", rand.Uint64()), "of the trainer: one that exists goes on where it is")
	flag.Parse()
	if _, set := os.LookupEnv("RAYSYS_GPUS"); !set {
		_ = os.Setenv("RAYSYS_GPUS", "auto") // the name is valid
	}
	system.Main(func(ctx context.Context) error { return run(ctx, *name, *steps, *every, os.Stdout) })
}

// run has the trainer make so many steps.
func run(ctx context.Context, name string, steps, every int, w io.Writer) error {
	fmt.Fprintf(w, "%6s %8s %9s %8s  %s\n", "step", "loss", "accuracy", "ms/step", "device")
	gpu := true
	for done := 0; done < steps; {
		n, begun := min(every, steps-done), time.Now()
		p, err := Progress{}, raysys.ErrNoCapacity
		if gpu {
			p, err = gpuFit.Call(ctx, onGPU.Get(name), n).Get(ctx)
		}
		if gpu = gpu && !errors.Is(err, raysys.ErrNoCapacity); !gpu {
			p, err = cpuFit.Call(ctx, onCPU.Get(name), n).Get(ctx)
		}
		if err != nil {
			return err
		}
		done += n
		fmt.Fprintf(w, "%6d %8.4f %9.3f %8.3f  %s\n", p.Step, p.Loss, p.Accuracy, time.Since(begun).Seconds()*1000/float64(n), p.Device)
	}
	return nil
}
