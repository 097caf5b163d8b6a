package rl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/testkit"
)

var mortals = process.DefineVector("guide.mortal", process.Config{Script: walkPy + `
import os

class Mortal(Walk):
    """It ends the process with the 150th step that this has made."""

    made = 0

    def step(self, action):
        Mortal.made += 1
        if Mortal.made == 150:
            os._exit(3)
        return super().step(action)
`, New: "Mortal", Envs: 1})

var leave = grains.Action0(walks.Kind, "leave", func(_ *process.Vector, ctx context.Context) error { return grains.Deactivate(ctx) })

// TestPythonDies: an environment whose process ends again and again shows the same as one whose does not, and as another one beside that.
func TestPythonDies(t *testing.T) {
	needs(t, "json")
	ctx := testkit.New(t).Context()
	var worlds []rl.Env[int]
	for _, kind := range []process.Vectors{walks, walks, mortals} {
		worlds = append(worlds, inPython(kind, newWalk(ctx, 1).Spec())(ctx, 1))
	}
	rng, steps := rand.New(rand.NewPCG(1, 1)), 0
	for episode := range 60 {
		first := slices.Clone(worlds[0].Reset())
		for _, w := range worlds[1:] {
			if o := w.Reset(); !slices.Equal(o, first) {
				t.Fatalf("episode %d begins with %v, and another with %v", episode, o, first)
			}
		}
		for done, n := false, 0; !done; n++ {
			action := rng.IntN(2)
			if episode%10 == 9 && n == 2 { // it was idle for too long
				if _, err := leave.Call(ctx, worlds[1].(*pyEnv).child).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			s := worlds[0].Step(action)
			for _, w := range worlds[1:] {
				if other := w.Step(action); !reflect.DeepEqual(other, s) {
					t.Fatalf("episode %d: %v, and another has %v", episode, other, s)
				}
			}
			done = s.Done()
			steps++
		}
	}
	if steps < 300 {
		t.Error("no process ended twice in so few steps:", steps)
	}
}

// counted tells how many steps a run makes.
type counted struct{ rl.Env[int] }

var onStep atomic.Pointer[func()]

func (c counted) Step(action int) rl.Step {
	if f := onStep.Load(); f != nil {
		(*f)()
	}
	return c.Env.Step(action)
}

// far are on other nodes than their actors.
var far = process.DefineVector("guide.far", process.Config{Script: walkPy, New: "Walk", Envs: 1}, grains.Placement(raysys.Spread))

var watched = rl.Define("guide.watched", rl.Setup[int]{
	EnvOn: func(ctx context.Context, seed uint64) rl.Env[int] {
		return counted{inPython(far, rl.Spec{Name: "Walk", Obs: []int{2}, Actions: 2, MaxSteps: 20})(ctx, seed)}
	},
	Agent: dqn.New(dqn.Config{}),
})

// TestPythonNodesDie: nodes die with their children in mid-run, and it goes on.
func TestPythonNodesDie(t *testing.T) {
	needs(t, "json")
	k := testkit.New(t, testkit.Nodes(3))
	var steps atomic.Int64
	var dead sync.WaitGroup
	hook := func() {
		if n := int(steps.Add(1)); n%1000 == 0 && n <= 3000 {
			dead.Go(func() { k.Cluster().Kill(n / 1000); k.Cluster().Restart(n / 1000) })
		}
	}
	onStep.Store(&hook)
	defer onStep.Store(nil)
	run, err := watched.Train(k.Context(), rl.Plan{Steps: 6000, Actors: 4})
	dead.Wait()
	if err != nil || run.Steps < 6000 || run.LearnerSteps < 500 {
		t.Errorf("%+v %v", run, err)
	}
}

var broken = process.DefineVector("guide.broken", process.Config{Script: walkPy + `
class Broken(Walk):
    def step(self, action):
        if self.steps == 2:
            raise ValueError("a broken knee")
        return super().step(action)
`, New: "Broken", Envs: 1})

var limp = rl.Define("guide.limp", rl.Setup[int]{EnvOn: inPython(broken, rl.Spec{Name: "Broken", Obs: []int{2}, Actions: 2}), Agent: dqn.New(dqn.Config{})})

// TestPythonRaises: an exception is the error of the run, with its place.
func TestPythonRaises(t *testing.T) {
	needs(t, "json")
	_, err := limp.Train(testkit.New(t).Context(), rl.Plan{Steps: 100})
	e, ok := errors.AsType[*rl.EnvError](err)
	if !ok || e.Step != 3 || e.Name != "Broken" || !strings.Contains(e.What, "ValueError: a broken knee") {
		t.Error(err)
	}
}
