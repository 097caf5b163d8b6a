package envs

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys/rl"
)

// episodes is what all environments here have: the Spec, what is random, and where the episode stands.
type episodes struct {
	spec          rl.Spec
	seed          uint64
	rng           *rand.Rand
	episode, step int
	on            bool // between Reset and the end of the episode
}

func newEpisodes(seed uint64, spec rl.Spec) episodes {
	return episodes{spec: spec, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), episode: -1}
}

func (e *episodes) Spec() rl.Spec { return e.spec }

func (e *episodes) begin() { e.episode, e.step, e.on = e.episode+1, 0, true }

// take counts a step, and refuses one that has no episode or a wrong action.
func take[A rl.Action](e *episodes, action A) {
	if !e.on {
		e.refuse("Step, and no episode is on: Reset comes next")
	}
	if !rl.Valid(&e.spec, action) {
		e.refuse(fmt.Sprintf("action %v is not in the Spec", action))
	}
	e.step++
}

func (e *episodes) refuse(what string) {
	panic(&rl.EnvError{Name: e.spec.Name, Seed: e.seed, Episode: max(0, e.episode), Step: e.step, What: what})
}

// end returns what a step led to. One that ends the episode by its own rules is not truncated too: its return is known.
func (e *episodes) end(obs []float32, reward float32, terminated bool) rl.Step {
	s := rl.Step{Obs: obs, Reward: reward, Terminated: terminated, Truncated: !terminated && e.step == e.spec.MaxSteps}
	e.on = !s.Done()
	return s
}
