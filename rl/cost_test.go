package rl_test

import (
	"bytes"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// counted is an environment that counts the steps of all its kind. An episode has so many of them, each of which returns the number of the action.
type counted struct {
	spec rl.Spec
	n    int
}

var countedSteps atomic.Int64

func (c *counted) Spec() rl.Spec    { return c.spec }
func (c *counted) Reset() []float32 { c.n = 0; return []float32{0} }
func (c *counted) Step(action int) rl.Step {
	c.n++
	countedSteps.Add(1)
	return rl.Step{Obs: []float32{float32(c.n)}, Reward: float32(action), Truncated: c.n == c.spec.MaxSteps}
}

func countedOf(steps int, random float64) rl.Setup[int] {
	return rl.Setup[int]{Agent: arms{}, Env: func(uint64) rl.Env[int] {
		return &counted{spec: rl.Spec{Name: "counted", Obs: []int{1}, Actions: 3, MaxSteps: steps, Random: random}}
	}}
}

var (
	longKnown   = rl.Define("rl-test-cost-known", countedOf(300, 300))
	longUnknown = rl.Define("rl-test-cost-unknown", countedOf(300, 0))
	short       = rl.Define("rl-test-cost-short", countedOf(10, 0))
)

var costRounds int // of TestCost: -count

// TestCost: what is no training costs a fifth of the steps at most, and a Run says how many steps each part took. What random actions return is measured once
// in an experiment, where the Spec does not say it.
func TestCost(t *testing.T) {
	nan := math.NaN()
	costRounds++
	for _, c := range []struct {
		name                 string
		x                    *rl.Experiment
		plan                 rl.Plan
		baseline, evaluation int // steps; -1: some, and a fifth of all with the others at most
		random               float64
		points               int // that are evaluated
	}{
		{"a known baseline", longKnown, rl.Plan{Steps: 1500}, 0, 300, 300, 1},
		{"no room for a point", longKnown, rl.Plan{Steps: 1500, Evaluate: true}, 0, 300, 300, 1},
		{"no room for a baseline", longUnknown, rl.Plan{Steps: 1500}, 0, 300, nan, 1},
		{"a point each 3,000 steps", longKnown, rl.Plan{Steps: 15_000, Evaluate: true}, 0, -1, 300, 5},
		{"of ten episodes", short, rl.Plan{Steps: 10_000}, 100, 100, 10, 1},
		{"of two episodes", short, rl.Plan{Steps: 10_000, Evaluate: true}, 0, -1, 10, 50}, // the experiment knows its baseline
		{"a goal that is near, and not reached", short, rl.Plan{Steps: 10_000, Stop: rl.MeanReturn(100, 20.5)}, 0, -1, 10, 2},
		{"asked for", short, rl.Plan{Steps: 1000, Evaluate: true, Every: 100, Episodes: 20}, 200, 2000, 10, 10},
	} {
		for _, actors := range []int{1, 3} {
			t.Run(c.name, func(t *testing.T) {
				k := testkit.New(t, testkit.Nodes(0))
				countedSteps.Store(0)
				c.plan.Actors, c.plan.Progress = actors, io.Discard
				r, err := c.x.Train(k.Context(), c.plan)
				if err != nil {
					t.Fatal(err)
				}
				all := int(countedSteps.Load())
				if all != r.Steps+r.BaselineSteps+r.EvaluationSteps {
					t.Errorf("%d steps were made, and the run says %d, %d and %d", all, r.Steps, r.BaselineSteps, r.EvaluationSteps)
				}
				if c.plan.Episodes == 0 && 5*all > 6*r.Steps {
					t.Errorf("%d steps of training make %d", r.Steps, all)
				}
				if actors > 1 || costRounds > 1 { // the experiment knows its baseline by now
					c.baseline = 0
				}
				evaluated := 0
				for _, p := range r.Points {
					if !math.IsNaN(p.Evaluated) {
						evaluated++
					}
				}
				if r.BaselineSteps != c.baseline || c.evaluation >= 0 && r.EvaluationSteps != c.evaluation || evaluated < c.points ||
					actors == 1 && !strings.Contains(c.name, "near") && evaluated != c.points ||
					math.Abs(r.RandomReturn-c.random) > 2 || math.IsNaN(r.RandomReturn) != math.IsNaN(c.random) {
					t.Errorf("%d steps of random actions, which return %v, %d of evaluations, %d points of %d are evaluated: want %d, %v, %d, %d",
						r.BaselineSteps, r.RandomReturn, r.EvaluationSteps, evaluated, len(r.Points), c.baseline, c.random, c.evaluation, c.points)
				}
			})
		}
	}
}

// TestBaselineIsKept: a run that goes on, in another program too, knows what random actions return; the seconds of its points go on.
func TestBaselineIsKept(t *testing.T) {
	keptRounds++ // the experiment knows a baseline of so many episodes
	for name, actors := range map[string]int{"single": 1, "nodes": 2} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(0))
			plan := rl.Plan{Steps: 6000, Until: 3000, Dir: t.TempDir(), Actors: actors, Episodes: 10 + keptRounds, Progress: io.Discard}
			first, err := keptArms[actors-1].Train(k.Context(), plan)
			if err != nil || first.BaselineSteps == 0 {
				t.Fatalf("%+v %v", first, err)
			}
			if was, random, err := rl.AgeCheckpoint(plan.Dir, 1e6); err != nil || was <= 0 || len(random) != 1 || random[0] != first.RandomReturn {
				t.Fatalf("the checkpoint has %v seconds and %v: %v", was, random, err)
			}
			plan.Until = 0
			other := keptArms[actors+1] // has measured nothing
			r, err := other.Train(raysys.Branch(k.Context(), 1), plan)
			if err != nil || r.Resumed == 0 || r.BaselineSteps != 0 || r.RandomReturn != first.RandomReturn || r.Points[0].Seconds < 1e6 || r.Points[0].Seconds > 1.1e6 {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
}

var keptRounds int // of TestBaselineIsKept: -count

var keptArms = [4]*rl.Experiment{
	rl.Define("rl-test-kept-0", countedOf(10, 0)), rl.Define("rl-test-kept-1", countedOf(10, 0)),
	rl.Define("rl-test-kept-2", countedOf(10, 0)), rl.Define("rl-test-kept-3", countedOf(10, 0)),
}

// terminal is one that keeps what it is shown.
type terminal struct{ bytes.Buffer }

func (*terminal) Terminal() bool { return true }

var (
	shown      terminal
	atFirst    string // what shown has at the first step of an environment
	showRounds int    // of TestLiveFromTheFirstStep: -count
)

type shows struct{ rl.Env[int] }

func (s shows) Step(a int) rl.Step {
	if atFirst == "" {
		atFirst = shown.String() + "."
	}
	return s.Env.Step(a)
}

var showing = rl.Define("rl-test-shows", rl.Setup[int]{Agent: arms{}, Env: func(seed uint64) rl.Env[int] { return shows{countedOf(10, 0).Env(seed)} }})

// TestLiveFromTheFirstStep: the live line is there before the first step, of random actions too.
func TestLiveFromTheFirstStep(t *testing.T) {
	shown.Reset()
	atFirst = ""
	showRounds++ // the experiment knows a baseline of so many episodes
	r, err := showing.Train(t.Context(), rl.Plan{Steps: 1000, Episodes: 10 + showRounds, Progress: &shown})
	if err != nil || r.BaselineSteps == 0 || !strings.Contains(atFirst, "rl-test-shows: 0 of 1000 steps (0%)\x1b") {
		t.Errorf("at the first step the terminal has %q: %v %v", atFirst, r, err)
	}
	if !strings.Contains(shown.String(), "1000 of 1000 steps (100%)") || !strings.Contains(shown.String(), "(random ") {
		t.Errorf("at the end it has %q", shown.String())
	}
}

// TestEveryPoint: with several actors and evaluations a run has each of its points, and each is evaluated where that was asked for. The same holds where the
// points are nearer to each other than the turns of actors are long, and where a goal is near.
func TestEveryPoint(t *testing.T) {
	for name, plan := range map[string]rl.Plan{
		"evaluated":    {Steps: 6000, Every: 100, Evaluate: true, Episodes: 30},
		"as there is":  {Steps: 6000, Every: 100, Evaluate: true},
		"often":        {Steps: 600, Every: 10},
		"near a goal":  {Steps: 6000, Every: 100, Stop: rl.MeanReturn(30, 0.97)},
		"often, asked": {Steps: 900, Every: 15, Evaluate: true, Episodes: 3},
	} {
		t.Run(name, func(t *testing.T) {
			for _, actors := range []int{2, 8} {
				k := testkit.New(t, testkit.Nodes(0))
				plan.Actors, plan.Progress = actors, io.Discard
				r, err := chooses.Train(k.Context(), plan)
				if err != nil {
					t.Fatal(err)
				}
				if want := plan.Steps / plan.Every; len(r.Points) != want {
					t.Errorf("%d actors: %d points, want %d", actors, len(r.Points), want)
				}
				before := 0
				for i, p := range r.Points {
					if p.Steps < (i+1)*plan.Every || p.Steps >= (i+2)*plan.Every || p.Steps <= before || plan.Evaluate && math.IsNaN(p.Evaluated) {
						t.Errorf("%d actors: point %d is %+v", actors, i, p)
					}
					before = p.Steps
				}
			}
		})
	}
}

// TestEveryBeyondTheSteps: a run has one Point then, that of its end, and its actors have steps to make.
func TestEveryBeyondTheSteps(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	plan := rl.Plan{Steps: 1000, Every: math.MaxInt, Evaluate: true, Actors: 2, Progress: io.Discard}
	if r, err := chooses.Train(k.Context(), plan); err != nil || len(r.Points) != 1 || r.Points[0].Steps != 1000 {
		t.Errorf("%+v %v", r, err)
	}
}
