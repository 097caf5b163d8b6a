package rl_test

import (
	"fmt"

	"github.com/raysys/raysys/rl"
)

// Lift begins on the ground and goes to floor 3; the actions go down and up.
type Lift struct {
	floor, steps int
	on           bool
}

func NewLift(uint64) rl.Env[int] { return &Lift{} }

func (*Lift) Spec() rl.Spec { return rl.Spec{Name: "Lift", Obs: []int{1}, Actions: 2, MaxSteps: 10} }

func (l *Lift) Reset() []float32 {
	*l = Lift{on: true}
	return []float32{0}
}

func (l *Lift) Step(action int) rl.Step {
	if spec := l.Spec(); !l.on || !rl.Valid(&spec, action) {
		panic(&rl.EnvError{Name: "Lift", Step: l.steps, What: fmt.Sprintf("action %d, episode on: %v", action, l.on)})
	}
	l.steps++
	l.floor = max(0, l.floor+2*action-1)
	s := rl.Step{Obs: []float32{float32(l.floor)}, Terminated: l.floor == 3, Truncated: l.steps > 10} // one step too late
	l.on = !s.Done()
	return s
}

// Check plays an environment and says where it breaks the rules: this one ends its episodes one step too late.
func Example_checkAnEnvironment() {
	fmt.Println(rl.Check(NewLift))
	// Output: environment Lift, seed 1, episode 4, step 10: the episode goes on after step 10, which is MaxSteps
}
