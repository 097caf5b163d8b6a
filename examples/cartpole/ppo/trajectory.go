package ppo

import "fmt"

// Trajectory is what one rollout brings back: whole episodes, end to end, in
// flat columns that a codec moves as raw segments. A row is one step.
type Trajectory struct {
	// Version is that of the weights that acted.
	Version int

	// Obs holds the observations before each step, row after row of ObsSize.
	Obs     []float64
	ObsSize int

	// Actions, LogProbs, Rewards and Values have one entry per step: what was
	// done, how probable that was, what it earned, and what the value net
	// expected beforehand.
	Actions  []int32
	LogProbs []float64
	Rewards  []float64
	Values   []float64

	// Lengths has the number of steps of each episode, Returns its undiscounted
	// sum of rewards.
	Lengths []int32
	Returns []float64

	// Bootstraps has what each episode was still worth at its end: zero where it
	// was done, the value of the final observation where it was truncated.
	// Taking the truncated ones for done would teach that every state is about
	// to end, since a policy that never fails is truncated from any of them.
	Bootstraps []float64
}

// Steps is the number of rows.
func (t Trajectory) Steps() int { return len(t.Actions) }

// check reports, as ErrShape, columns that do not fit one another or the
// weights: a trajectory comes from another node, perhaps of another version.
func (t Trajectory) check(w Weights) error {
	n := len(t.Actions)
	if t.ObsSize != w.Obs || len(t.Obs) != n*t.ObsSize {
		return fmt.Errorf("%w: %d observed values of %d for %d steps of %d", ErrShape, len(t.Obs), t.ObsSize, n, w.Obs)
	}
	if len(t.LogProbs) != n || len(t.Rewards) != n || len(t.Values) != n {
		return fmt.Errorf("%w: %d actions, %d log-probabilities, %d rewards, %d values",
			ErrShape, n, len(t.LogProbs), len(t.Rewards), len(t.Values))
	}
	if len(t.Returns) != len(t.Lengths) || len(t.Bootstraps) != len(t.Lengths) {
		return fmt.Errorf("%w: %d lengths, %d returns, %d bootstraps",
			ErrShape, len(t.Lengths), len(t.Returns), len(t.Bootstraps))
	}
	sum := 0
	for _, l := range t.Lengths {
		if l <= 0 {
			return fmt.Errorf("%w: episode of %d steps", ErrShape, l)
		}
		sum += int(l)
	}
	if sum != n {
		return fmt.Errorf("%w: episodes of %d steps together, %d rows", ErrShape, sum, n)
	}
	for _, a := range t.Actions {
		if a < 0 || int(a) >= w.Actions {
			return fmt.Errorf("%w: action %d of %d", ErrShape, a, w.Actions)
		}
	}
	return nil
}
