package rl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/es"
	"github.com/raysys/raysys/rl/sweep"
	"github.com/raysys/raysys/testkit"
)

var tune = sweep.Define("guide.tune", sweep.Space{
	"rate":  sweep.Log(1e-5, 1e-1),
	"gamma": sweep.Uniform(0.8, 0.999),
	"nstep": sweep.Choice(1, 3, 5),
}, func(s sweep.Setting) rl.Setup[int] {
	return rl.Setup[int]{Env: NewLift, Agent: dqn.New(dqn.Config{
		LearningRate: s.Float("rate"), Gamma: s.Float("gamma"), NStep: s.Int("nstep"), MinSize: 200,
	})}
})

var evolve = es.Define("guide.evolve", envs.CartPole, es.Config{})

func TestSweeps(t *testing.T) {
	ctx, file := testkit.New(t, testkit.Nodes(3), testkit.Loose()).Context(), filepath.Join(t.TempDir(), "monday.svg")
	if err := tuneLift(ctx, file); err != nil {
		t.Fatal(err)
	}
	again, err := tune.Run(ctx, sweep.Plan{Trials: 2, Steps: 300, Search: sweep.Random()})
	if err != nil || len(again.Trials) != 2 || again.Best.Last().Steps != 300 {
		t.Errorf("%v %v", again, err)
	}
	if drawn, err := os.ReadFile(file); err != nil || !strings.Contains(string(drawn), "<svg") {
		t.Errorf("%.100s %v", drawn, err)
	}
	run, err := evolve.Train(ctx, es.Plan{Steps: 300_000, Workers: 16, Goal: 475})
	if err != nil || !run.Solved {
		t.Errorf("%v %v", run, err)
	}
}

func tuneLift(ctx context.Context, file string) error {
	found, err := tune.Run(ctx, sweep.Plan{Name: "monday", Trials: 9, Steps: 12_000, Search: sweep.ASHA(3, 4000)})
	if err != nil {
		return err
	}
	fmt.Println(found) // a table, the best first
	return found.Plot(file)
}
