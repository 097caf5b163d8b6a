package env

import "math/rand/v2"

// Env is one world with a finite set of actions. It is not safe for concurrent
// use.
type Env interface {
	// Spec returns the sizes of the world; they never change.
	Spec() Spec

	// Reset starts a new episode and writes its first observation to obs, which
	// must have length Spec().Obs. All the chance of an episode comes from rng,
	// so equal generators give equal episodes.
	Reset(rng *rand.Rand, obs []float64)

	// Step applies an action in [0, Spec().Actions), writes the observation
	// after it to obs and returns its reward. done: the episode reached a state
	// with no future. truncated: it was cut at Spec().MaxSteps in a state that
	// has one. At most one of the two is true. Step panics once the episode has
	// ended.
	Step(action int, obs []float64) (reward float64, done, truncated bool)
}

// Spec describes an Env.
type Spec struct {
	// Obs is the number of values in an observation.
	Obs int

	// Actions is the number of discrete actions.
	Actions int

	// MaxSteps is the number of steps after which an episode is truncated. It
	// is positive: whoever collects whole episodes relies on their ending.
	MaxSteps int

	// Solved is the mean return over 100 episodes from which the task counts as
	// learned.
	Solved float64
}
