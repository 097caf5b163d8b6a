package rl

import (
	"context"
	"encoding"
	"math/rand/v2"

	"github.com/raysys/raysys/grains/replay"
)

// Agent is an algorithm with its settings, such as dqn.New and ppo.New return: it makes what acts and what learns, and knows nothing of nodes. All its
// methods return the same for the same arguments, on every node.
type Agent interface {
	// Learner makes a learner with fresh weights, which follow from the seed. It fails for an environment that the algorithm cannot act in, and for
	// settings that cannot be meant. ctx is that of the call, for a learner that lives elsewhere.
	Learner(ctx context.Context, spec Spec, seed uint64) (Learner, error)
	// Policy makes what acts by the weights of such a learner. It fails as Learner does.
	Policy(spec Spec) (Policy, error)
	// Experience says how the steps of actors become what the learner samples.
	Experience() (Experience, error)
}

// Policy acts. It is for one goroutine.
type Policy interface {
	// Load has it act by these weights from now on. It may keep them, and never changes them. Loop calls it only with weights of the Model of a
	// learner of the same agent.
	Load(w Weights) error
	// Act writes the action for an observation, as Trajectory has it: its number to action[0], or its elements, each within the bounds of the Spec; and to
	// extra the numbers that the learner wants to know of it. Without a rng it acts as well as it can; with one it explores, and extra is written.
	Act(obs []float32, rng *rand.Rand, action, extra []float32)
}

// Learner makes weights better. It is for one goroutine.
type Learner interface {
	// Model names what is learned and its shape, such as "dqn 50-64-64-3 relu": weights and checkpoints of another Model do not fit.
	Model() string
	// Learn learns from a batch, whose trajectories have the shape of the Spec. It does not change them.
	Learn(ctx context.Context, b Batch) (Learned, error)
	// Weights are what policies act by, as they are now: they are never changed afterwards.
	Weights() []float32
	// What is marshaled has all that the learner knows. One that unmarshals it goes on as the other would have.
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// Learned is what came of a batch.
type Learned struct {
	// Steps are the learner steps that were made: 0 where the batch was only kept for a later one.
	Steps int
	Loss  float64 // of these steps
	// Priorities are the new ones of the items of the batch; nil where they stay.
	Priorities []float64
}

// Batch are items of the replay table: Steps has the trajectories, one an item.
type Batch = replay.Samples[Trajectory]

// Experience says how steps become items, and how they are sampled.
type Experience struct {
	Adder Adder
	Table replay.Table // its name is set where it is empty; its limiter bounds the samples for each item
	Batch int          // items in a batch
	Extra int          // numbers that a policy writes beside each number of an action
	// Fresh bounds the steps that all actors together have played and not yet offered to the table, beside those of items that are not complete: the
	// turns of an actor are shorter where there are more of them. An agent that learns best from what its latest weights did gives a part of what an
	// update learns from. 0: each actor plays 64 steps a turn.
	Fresh int
}

// turn is how many steps an actor plays between two looks at the table's limiter.
func (x *Experience) turn(actors int) int {
	if x.Fresh == 0 {
		return freeTurn
	}
	return max(1, x.Fresh/actors)
}

// freeTurn: a call of an actor that plays 64 steps of a small environment costs about a twentieth of them.
const freeTurn = 64

// Weights are what a policy acts by.
type Weights struct {
	Model  string // of the learner
	Steps  int    // that the learner had made
	Params []float32
}

// Trajectory is a run of steps of one episode: the one item of replay. Lists of n steps have n times as many numbers as one.
type Trajectory struct {
	// Obs has n+1 observations one after the other: before each step, and after the last.
	Obs []float32
	// Actions has the number of each action, or its elements where actions are vectors.
	Actions []float32
	Rewards []float32
	// Discounts says how much what comes after a step counts: nothing after one that terminated the episode, else 1. A truncated episode ends with a 1:
	// the value of the last observation stands for what would have come. In the one step that NStep makes of several it is the discount of all.
	Discounts []float32
	// Extras has what the policy wrote beside each action.
	Extras []float32
	// Acted is how many steps the learner had made when it published the weights that took the first action.
	Acted int
}

// Len is how many steps it has.
func (t *Trajectory) Len() int { return len(t.Rewards) }

// fits reports whether the lists have the lengths that a learner may rely on.
func (t *Trajectory) fits(obs, action, extra int) bool {
	n := t.Len()
	return n > 0 && len(t.Obs) == (n+1)*obs && len(t.Actions) == n*action && len(t.Discounts) == n && len(t.Extras) == n*extra
}
