package rl

import "fmt"

// Action is what an agent does: the number of a discrete action, from 0, or a vector.
type Action interface{ int | []float32 }

// Env is an environment: one episode after the other. It is for one goroutine. It takes what is random from the seed that it was made with, so that
// the same seed and actions make the same episodes. Check tests all that stands here.
type Env[A Action] interface {
	// Spec is the same for the life of the environment.
	Spec() Spec
	// Reset begins an episode, wherever the one before stands, and returns its first observation.
	Reset() []float32
	// Step takes an action. After one that ends the episode Reset comes next. The slices that Reset and Step return belong to the environment, and
	// are valid until its next call; that of the action belongs to the caller, and is valid until Step returns.
	//
	// An action that Valid refuses, and a Step before Reset or after the end of the episode, is a panic with an *EnvError.
	Step(action A) Step
}

// Step is what an action leads to.
type Step struct {
	Obs    []float32
	Reward float32
	// Terminated: the episode has ended by its own rules, and there is no return to come. Truncated: it was cut off, by a bound of time, and the value of
	// Obs stands for what would have come.
	Terminated, Truncated bool
}

// Done reports whether the episode has ended.
func (s Step) Done() bool { return s.Terminated || s.Truncated }

// Spec says what an environment shows and takes.
type Spec struct {
	Name string
	Obs  []int // the shape of observations
	// Actions is how many there are where an action is an int. Low and High bound each element where it is a vector.
	Actions   int
	Low, High []float32
	// MaxSteps is after how many steps an episode has ended at the latest; 0: no bound is known.
	MaxSteps int
	// Threshold is the published mean return from which on the environment counts as solved, 0 where there is none.
	Threshold float64
	// Random is the mean return of random actions, 0 where it was not measured: a run measures it then.
	Random float64
}

// Size is how many numbers an observation has.
func (s Spec) Size() int {
	n := 1
	for _, d := range s.Obs {
		n *= d
	}
	return n
}

// Valid reports whether an environment with the Spec takes the action: an int from 0 to Actions-1, or as many numbers as Low has, each from Low to High.
func Valid[A Action](s *Spec, action A) bool {
	switch a := any(action).(type) {
	case int:
		return 0 <= a && a < s.Actions
	case []float32:
		if len(a) != len(s.Low) || len(a) != len(s.High) {
			return false
		}
		for i, x := range a {
			if !(s.Low[i] <= x && x <= s.High[i]) { // NaN is refused
				return false
			}
		}
	}
	return true
}

// EnvError says what is wrong with an environment, or with what was asked of it.
type EnvError struct {
	Name    string // of the environment
	Seed    uint64
	Episode int // from 0
	Step    int // of the episode: 0 for Reset
	What    string
	Trace   string // the stack of a panic: "" where there was none
}

// PanicStack is Trace as raysys.Stack finds it.
func (e *EnvError) PanicStack() []byte {
	if e.Trace == "" {
		return nil
	}
	return []byte(e.Trace)
}

func (e *EnvError) Error() string {
	if e.Name == "" { // nobody knew of which it is
		return "environment: " + e.What
	}
	return fmt.Sprintf("environment %s, seed %d, episode %d, step %d: %s", e.Name, e.Seed, e.Episode, e.Step, e.What)
}
