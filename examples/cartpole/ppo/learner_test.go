package ppo_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

func newLearner(tb testing.TB, c ppo.Config) *ppo.Learner {
	tb.Helper()
	l, err := ppo.NewLearner(c, env.NewCartPole().Spec())
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// collect makes the rollouts of one iteration, one after another.
func collect(w ppo.Weights, seed uint64, iteration int) []ppo.Trajectory {
	trajs := make([]ppo.Trajectory, rollouts)
	for k := range trajs {
		trajs[k] = ppo.Rollout(w, env.NewCartPole(), rolloutSteps, ppo.Stream(seed, iteration, k))
	}
	return trajs
}

func TestLearnerRepeatsAndResumes(t *testing.T) {
	run := func(resume bool) (ppo.State, ppo.Stats) {
		l := newLearner(t, ppo.Config{Seed: 4, Epochs: 2})
		var stats ppo.Stats
		for i := range 3 {
			var err error
			if stats, err = l.Update(collect(l.Weights(), 4, i)); err != nil {
				t.Fatal(err)
			}
			if resume {
				if l, err = ppo.Resume(l.State()); err != nil {
					t.Fatal(err)
				}
			}
		}
		return l.State(), stats
	}
	state, stats := run(false)
	for name, resume := range map[string]bool{"again": false, "resumed": true} {
		other, otherStats := run(resume)
		if diff := cmp.Diff(state, other); diff != "" {
			t.Errorf("%s: another state:\n%s", name, diff)
		}
		if diff := cmp.Diff(stats, otherStats); diff != "" {
			t.Errorf("%s: other stats:\n%s", name, diff)
		}
	}
	if state.Weights.Version != 3 || state.Steps != stats.TotalSteps || state.Policy.Steps == 0 {
		t.Errorf("version %d after 3 updates, %d steps of %d, %d optimiser steps",
			state.Weights.Version, state.Steps, stats.TotalSteps, state.Policy.Steps)
	}
}

func TestLearnerLeavesPublishedStateAlone(t *testing.T) {
	l := newLearner(t, ppo.Config{Epochs: 1})
	for i := range 2 {
		before := l.State()
		copied := before
		for _, column := range []*[]float64{
			&copied.Weights.Policy, &copied.Weights.Value,
			&copied.Policy.M, &copied.Policy.V, &copied.Value.M, &copied.Value.V,
		} {
			*column = slices.Clone(*column)
		}
		if _, err := l.Update(collect(l.Weights(), 1, i)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(copied, before); diff != "" {
			t.Errorf("update %d changed what was handed out:\n%s", i+1, diff)
		}
		if cmp.Equal(before.Weights.Policy, l.Weights().Policy) {
			t.Errorf("update %d changed nothing", i+1)
		}
	}
}

func TestLearnerRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func([]ppo.Trajectory) []ppo.Trajectory
		want  error
	}{
		{"nothing", func([]ppo.Trajectory) []ppo.Trajectory { return nil }, ppo.ErrNoSteps},
		{"zero trajectories", func([]ppo.Trajectory) []ppo.Trajectory { return []ppo.Trajectory{{ObsSize: 4}} }, ppo.ErrNoSteps},
		{"missing observations", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Obs = ts[0].Obs[4:]; return ts }, ppo.ErrShape},
		{"other environment", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[1].ObsSize = 2; return ts }, ppo.ErrShape},
		{"missing value", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Values = ts[0].Values[1:]; return ts }, ppo.ErrShape},
		{"missing bootstrap", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Bootstraps = nil; return ts }, ppo.ErrShape},
		{"short episodes", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Lengths[0]--; return ts }, ppo.ErrShape},
		{"empty episode", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Lengths[0] = 0; return ts }, ppo.ErrShape},
		{"unknown action", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Actions[3] = 2; return ts }, ppo.ErrShape},
		{"reward that is no number", func(ts []ppo.Trajectory) []ppo.Trajectory { ts[0].Rewards[0] = math.NaN(); return ts }, ppo.ErrDiverged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLearner(t, ppo.Config{Epochs: 1})
			before := l.State()
			_, err := l.Update(tc.spoil(collect(l.Weights(), 1, 0)))
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if diff := cmp.Diff(before, l.State()); diff != "" {
				t.Errorf("the failed update left a trace:\n%s", diff)
			}
		})
	}
}

func TestConfigRefused(t *testing.T) {
	for name, c := range map[string]ppo.Config{
		"hidden": {Hidden: -1}, "rate": {LearningRate: -1}, "gamma": {Gamma: 1.1}, "lambda": {Lambda: -0.5},
		"clip": {Clip: 1}, "epochs": {Epochs: -1}, "minibatch": {Minibatch: -1}, "entropy": {Entropy: math.NaN()},
	} {
		if _, err := ppo.NewLearner(c, env.NewCartPole().Spec()); !errors.Is(err, ppo.ErrConfig) {
			t.Errorf("%s: error %v, want %v", name, err, ppo.ErrConfig)
		}
	}
	s := newLearner(t, ppo.Config{}).State()
	s.Weights.Policy = s.Weights.Policy[1:]
	if _, err := ppo.Resume(s); !errors.Is(err, ppo.ErrShape) {
		t.Errorf("resume of short weights: error %v, want %v", err, ppo.ErrShape)
	}
}
