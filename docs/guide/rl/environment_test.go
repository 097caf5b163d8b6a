package rl_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
)

// Lift is a house of five floors: a passenger waits on one, and wants to another. Actions are down, up and open the door.
type Lift struct {
	rng  *rand.Rand
	at   View
	flat func(*View) []float32
	step int
	on   bool
}

// View is what the agent sees.
type View struct {
	Floor, Waits, Wants [5]bool
	Inside              bool
}

func NewLift(seed uint64) rl.Env[int] {
	flat, _ := rl.Flatten(View{})
	return &Lift{rng: rand.New(rand.NewPCG(seed, 0)), flat: flat}
}

func (l *Lift) Spec() rl.Spec {
	return rl.Spec{Name: "Lift", Obs: []int{16}, Actions: 3, MaxSteps: 30, Threshold: 0.8}
}

func (l *Lift) Reset() []float32 {
	l.at, l.step, l.on = View{}, 0, true
	from := l.rng.IntN(5)
	l.at.Floor[l.rng.IntN(5)], l.at.Waits[from], l.at.Wants[(from+1+l.rng.IntN(4))%5] = true, true, true
	return l.flat(&l.at)
}

func (l *Lift) Step(action int) rl.Step {
	spec := l.Spec()
	if !l.on || !rl.Valid(&spec, action) {
		panic(&rl.EnvError{Name: spec.Name, Step: l.step, What: "it takes no such action here"})
	}
	l.step++
	reward := float32(-0.01) // of time
	there := false
	switch floor := index(l.at.Floor); {
	case action < 2:
		l.at.Floor = [5]bool{}
		l.at.Floor[min(4, max(0, floor+2*action-1))] = true
	case !l.at.Inside && l.at.Waits[floor]:
		l.at.Inside, l.at.Waits = true, [5]bool{}
	case l.at.Inside && l.at.Wants[floor]:
		reward, there = 1, true
	}
	l.on = !there && l.step < spec.MaxSteps
	return rl.Step{Obs: l.flat(&l.at), Reward: reward, Terminated: there, Truncated: !there && !l.on}
}

func index(floors [5]bool) (i int) {
	for !floors[i] {
		i++
	}
	return i
}

func TestLift(t *testing.T) {
	if err := rl.Check(NewLift); err != nil {
		t.Fatal(err)
	}
}

// careless has a fault that costs a day: its seed is not used.
type careless struct{ rl.Env[int] }

func TestCheckFinds(t *testing.T) {
	n := uint64(0)
	err := rl.Check(func(uint64) rl.Env[int] { n++; return careless{NewLift(n)} })
	if e := (*rl.EnvError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "the same seed and actions lead elsewhere") {
		t.Error(err)
	}
}

func TestRandomLift(t *testing.T) {
	mean, err := rl.Evaluate(NewLift, 1, nil, 200)
	if err != nil || mean < -0.3 || mean > 0.6 {
		t.Error(mean, err)
	}
	t.Log(mean)
}
