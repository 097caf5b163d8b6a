package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
)

//go:embed learner.py
var learner string

const batch = 256 // examples in a step

// trainer is a learner in PyTorch. What it has learned outlives its process, and its node, in a State.
type trainer struct {
	process.Child
	saved grains.State[snapshot]
}

// snapshot is what a learner goes on with.
type snapshot struct {
	Step    int            `json:"-"`
	Weights process.Tensor `json:"weights"`
	Moments process.Tensor `json:"moments"` // of Adam
}

type (
	examples struct {
		X process.Tensor `json:"x"`
		Y process.Tensor `json:"y"`
	}
	fitted struct {
		Loss   float64 `json:"loss"`
		Device string  `json:"device"`
	}
	inputs struct {
		X process.Tensor `json:"x"`
	}
	classes struct {
		Y process.Tensor `json:"y"`
	}
	none struct{}
)

// Progress is where a trainer stands.
type Progress struct {
	Step           int
	Loss, Accuracy float64
	Device         string
}

// The two kinds have trainers of their own: one whose name is the same on the other is another.
var (
	onGPU  = grains.Define[trainer]("torch.gpu", grains.Holds(raysys.GPU(1)))
	onCPU  = grains.Define[trainer]("torch.cpu")
	gpuFit = grains.Method(onGPU, "train", (*trainer).train).With(raysys.Deadline(limit))
	cpuFit = grains.Method(onCPU, "train", (*trainer).train).With(raysys.Deadline(limit))
)

// ready starts a learner where there is none, and gives it what was learned.
func (t *trainer) ready(ctx context.Context) error {
	if t.PID() != 0 {
		return nil
	}
	cfg := process.Config{Script: learner, New: "Learner", Args: map[string]any{"hidden": 64, "rate": 0.01}, Seed: 1}
	if err := t.Start(ctx, cfg); err != nil || !t.saved.Exists() {
		return err
	}
	_, err := process.Call[snapshot, none](ctx, &t.Child, "load", t.saved.Value)
	return err
}

// train makes so many steps, and stores what was learned. The batches depend on the step alone: one that is made again, after its child
// or its node has ended, is the same.
func (t *trainer) train(ctx context.Context, steps int) (p Progress, err error) {
	if err := t.ready(ctx); err != nil {
		return p, err
	}
	var f fitted
	for i := range steps {
		if f, err = process.Call[examples, fitted](ctx, &t.Child, "fit", spirals(t.saved.Value.Step+i)); err != nil {
			return p, err
		}
	}
	test := spirals(-1)
	c, err := process.Call[inputs, classes](ctx, &t.Child, "classify", inputs{test.X})
	if err != nil {
		return p, err
	}
	s, err := process.Call[none, snapshot](ctx, &t.Child, "save", none{})
	if err != nil {
		return p, err
	}
	s.Step = t.saved.Value.Step + steps
	t.saved.Value = s
	if err := t.saved.Write(ctx); err != nil {
		return p, err
	}
	accuracy, err := same(c.Y, test.Y)
	return Progress{s.Step, f.Loss, accuracy, f.Device}, err
}

// same is the share of equal classes.
func same(a, b process.Tensor) (float64, error) {
	as, errA := process.Values[int64](a)
	bs, errB := process.Values[int64](b)
	if err := errors.Join(errA, errB); err != nil || len(as) != len(bs) {
		return 0, fmt.Errorf("compare classes %v and %v: %w", a, b, err)
	}
	n := 0
	for i := range as {
		if as[i] == bs[i] {
			n++
		}
	}
	return float64(n) / float64(len(as)), nil
}

// spirals are points of two spirals, one inside the other, and which of them each is on.
func spirals(step int) examples {
	r := rand.New(rand.NewPCG(uint64(step), 1))
	x, y := make([]float32, 0, 2*batch), make([]int64, batch)
	for i := range y {
		y[i] = int64(i & 1)
		at := r.Float64() * 3 * math.Pi
		sin, cos := math.Sincos(at + math.Pi*float64(y[i]))
		x = append(x, float32(at/9*cos+0.02*r.NormFloat64()), float32(at/9*sin+0.02*r.NormFloat64()))
	}
	return examples{process.Of(x, batch, 2), process.Of(y)}
}
