package rl

import (
	"errors"
	"testing"
)

// TestFitting: what a learner gets has the shape of the Spec.
func TestFitting(t *testing.T) {
	good := Trajectory{Obs: make([]float32, 9), Actions: make([]float32, 4), Rewards: make([]float32, 2), Discounts: make([]float32, 2), Extras: make([]float32, 4)}
	e := &Experiment{x: Experience{Extra: 1}}
	spec := &Spec{Obs: []int{3}, Low: []float32{0, 0}, High: []float32{1, 1}}
	for name, change := range map[string]func(*Trajectory){
		"":          func(*Trajectory) {},
		"no steps":  func(t *Trajectory) { *t = Trajectory{Obs: t.Obs[:3]} },
		"obs":       func(t *Trajectory) { t.Obs = t.Obs[1:] },
		"actions":   func(t *Trajectory) { t.Actions = t.Actions[:2] },
		"rewards":   func(t *Trajectory) { t.Rewards = t.Rewards[1:] },
		"discounts": func(t *Trajectory) { t.Discounts = nil },
		"extras":    func(t *Trajectory) { t.Extras = append(t.Extras, 1) },
	} {
		bad := good
		change(&bad)
		err := fitting(e, spec, Batch{Steps: []Trajectory{good, bad}})
		if (err != nil) != (name != "") || err != nil && !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSeeds: parts of runs of small seeds have seeds that differ.
func TestSeeds(t *testing.T) {
	seen := map[uint64]bool{}
	for run := range uint64(50) {
		for part := range uint64(50) {
			for _, p := range []uint64{part, seedRandom + part, seedEvaluate + part<<1, part << 32} {
				seen[seedOf(run, p)] = true
			}
		}
	}
	if want := 50 * (4*50 - 4); len(seen) < want { // of the parts some are one
		t.Errorf("%d seeds, want %d", len(seen), want)
	}
}
