package rl_test

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

var placed = rl.Define("guide.placed", rl.Setup[int]{
	Env:     NewLift,
	Agent:   dqn.New(dqn.Config{}),
	Learner: []grains.Option{grains.Holds(raysys.GPU(1)), grains.Keep()},
	Actors:  []grains.Option{grains.Holds(raysys.CPU(1))},
})

func TestOnThree(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	run, err := lift.Train(k.Context(), rl.Plan{Steps: 40_000, Actors: 4, Stop: rl.MeanReturn(100, 0.8)})
	if err != nil || !run.Solved {
		t.Errorf("%+v %v", run, err)
	}
}

func TestOnOne(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	ctx := k.Context()
	run, err := lift.Train(ctx, rl.Plan{Steps: 40_000, Actors: 16, Stop: rl.MeanReturn(100, 0.8)})
	if err != nil || !run.Solved {
		t.Errorf("%+v %v", run, err)
	}
	plan := rl.Plan{Steps: 40_000, Actors: 4, Name: "lift-17", Stop: rl.MeanReturn(100, 0.8)}
	if run, err = lift.Train(ctx, plan); err != nil || !run.Solved {
		t.Errorf("%+v %v", run, err)
	}
}

// TestPlaced: the learner is where a GPU is.
func TestPlaced(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), testkit.CPU(4), testkit.Each(func(i int, c *system.Config) {
		if i == 2 {
			c.Resources.GPU = 1
		}
	}))
	if run, err := placed.Train(k.Context(), rl.Plan{Steps: 6000, Actors: 2}); err != nil || run.LearnerSteps < 100 {
		t.Errorf("%+v %v", run, err)
	}
}
