package ppo

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/examples/cartpole/env"
)

// ErrShape is the state of weights or trajectories that do not fit the nets or
// one another.
var ErrShape = errors.New("ppo: shapes do not match")

// Weights are the parameters of the two nets at one moment. They are plain
// columns, about 72 KB for cart-pole, so that a codec moves them as raw
// segments. Once published they never change: every update makes new ones.
type Weights struct {
	// Version counts the updates that led here, 0 for the initial weights.
	Version int

	// Obs, Hidden and Actions are the widths of the layers: Obs, Hidden, Hidden,
	// then Actions logits in one net and a single value in the other.
	Obs, Hidden, Actions int

	// Policy and Value hold, layer by layer, the weights with a row per input,
	// then the biases.
	Policy, Value []float64
}

// NewWeights draws initial weights for an environment. The policy's output
// starts at gain 0.01, so that it begins undecided whatever it sees.
func NewWeights(spec env.Spec, hidden int, seed uint64) Weights {
	w := Weights{Obs: spec.Obs, Hidden: hidden, Actions: spec.Actions}
	rng := Stream(seed, 0, streamWeights)
	w.Policy = w.policyNet().init(0.01, rng)
	w.Value = w.valueNet().init(1, rng)
	return w
}

func (w Weights) policyNet() net { return newNet(w.Obs, w.Hidden, w.Hidden, w.Actions) }
func (w Weights) valueNet() net  { return newNet(w.Obs, w.Hidden, w.Hidden, 1) }

// Check reports, as ErrShape, weights whose columns do not have the lengths
// their widths ask for, as they may arrive from elsewhere.
func (w Weights) Check() error {
	if w.Obs <= 0 || w.Hidden <= 0 || w.Actions <= 0 {
		return fmt.Errorf("%w: weights of widths %d, %d, %d", ErrShape, w.Obs, w.Hidden, w.Actions)
	}
	if got, want := len(w.Policy), w.policyNet().size(); got != want {
		return fmt.Errorf("%w: %d policy weights, want %d", ErrShape, got, want)
	}
	if got, want := len(w.Value), w.valueNet().size(); got != want {
		return fmt.Errorf("%w: %d value weights, want %d", ErrShape, got, want)
	}
	return nil
}
