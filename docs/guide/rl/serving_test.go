package rl_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/testkit"
)

// Chooser acts by the newest weights of the run that is its key.
type Chooser struct {
	policy rl.Policy
	learnt int
	looked time.Time
}

func (c *Chooser) Act(ctx context.Context, seen [][]float32) ([]grains.Answer[int], error) {
	if err := c.look(ctx); err != nil {
		return nil, err // raysys.ErrNotFound before the run has published any
	}
	chosen := make([]grains.Answer[int], len(seen))
	var action [1]float32
	for i, obs := range seen {
		c.policy.Act(obs, nil, action[:], nil)
		chosen[i].Value = int(action[0])
	}
	return chosen, nil
}

func (c *Chooser) look(ctx context.Context) error {
	if c.policy != nil && time.Since(c.looked) < time.Second {
		return nil
	}
	c.looked = time.Now()
	self, _ := grains.Self(ctx)
	w, err := lift.Latest(ctx, self.Key).Get(ctx)
	if err != nil && c.policy != nil {
		return nil // the run has ended: the weights from before serve on
	} else if err != nil {
		return err
	}
	return c.Use(ctx, w)
}

func (c *Chooser) Use(_ context.Context, w rl.Weights) (err error) {
	if c.policy == nil {
		if c.policy, err = dqnOfLift.Policy(NewLift(0).Spec()); err != nil {
			return err
		}
	}
	c.learnt = w.Steps
	return c.policy.Load(w)
}

var dqnOfLift = dqn.New(dqn.Config{NStep: 5, Prioritised: true}) // the agent of the run

var (
	choosers = grains.Define[Chooser]("guide.chooser")
	choose   = grains.Batch(grains.Method(choosers, "act", (*Chooser).Act).Idempotent(), 64, 2*time.Millisecond)
	use      = grains.Action(choosers, "use", (*Chooser).Use)
)

func TestServing(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(3)).Context()
	ended := make(chan *rl.Run, 1)
	go func(ctx context.Context) {
		run, err := lift.Train(ctx, rl.Plan{Name: "lift-18", Actors: 2, Steps: 40_000, Stop: rl.MeanReturn(50, 0.4)})
		if err != nil {
			t.Error(err)
		}
		ended <- run
	}(raysys.Branch(ctx, 0))
	served := 0
	for run := (*rl.Run)(nil); run == nil; {
		if _, err := playServed(ctx, uint64(served)); err == nil {
			served++
		} else if !errors.Is(err, raysys.ErrNotFound) {
			t.Fatal(err)
		}
		select {
		case run = <-ended:
			if run == nil {
				return
			}
			if _, err := use.Call(ctx, choosers.Get("lift-18"), run.Weights).Get(ctx); err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	mean := 0.0
	for i := range 20 {
		r, err := playServed(ctx, uint64(1000+i))
		if err != nil {
			t.Fatal(err)
		}
		mean += r / 20
	}
	if served == 0 || mean < 0.1 {
		t.Errorf("%d episodes were served while the run went on, and the mean of 20 behind it is %v", served, mean)
	}
}

// playServed plays an episode by what the server of the run chooses.
func playServed(ctx context.Context, seed uint64) (total float64, err error) {
	env := NewLift(seed)
	for s := (rl.Step{Obs: env.Reset()}); !s.Done(); total += float64(s.Reward) {
		action, err := choose.Call(ctx, choosers.Get("lift-18"), slices.Clone(s.Obs)).Get(ctx)
		if err != nil {
			return 0, err
		}
		s = env.Step(action)
	}
	return total, nil
}
