package rl

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
)

// Loop plays an environment by a policy, episode after episode, and makes items of what happens: Acme's environment loop. It is for one goroutine.
//
// What is wrong with the environment, or with an action of the policy, is an *EnvError: a number that is NaN or infinite, an observation of another
// shape than the Spec says, a Spec that changes, an episode that goes on after MaxSteps, an action that Valid refuses, a panic. The episode is then over, and
// its steps make no item.
type Loop struct {
	world  *world
	spec   Spec
	seed   uint64
	policy Policy
	rng    *rand.Rand // nil: it acts as well as it can
	acted  int
	adding *adding // nil: nothing is kept
	items  []Trajectory
	huge   func(l *Loop, reward float32) // gets rewards beyond hugeReward; nil: nobody does

	on            bool // in an episode
	obs           []float32
	action, extra []float32
	now           Episode
	number        int // of the episode
}

// Episode is what came of an episode.
type Episode struct {
	Steps  int
	Return float64 // the sum of its rewards
}

// NewLoop makes a loop over an environment of the given seed, whose policy explores by that seed too. Items are made as x says. A nil policy acts at random.
// A Spec that Check refuses is an error here, too.
func NewLoop[A Action](env func(seed uint64) Env[A], seed uint64, policy Policy, x Experience) (*Loop, error) {
	l, err := newLoop(context.Background(), worlds(env), seed, policy, &x)
	if err == nil {
		err = specFaults(l.world.vector, l.spec, seed)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// newLoop makes a loop that keeps nothing, and does not explore, where x is nil.
func newLoop(ctx context.Context, make maker, seed uint64, policy Policy, x *Experience) (l *Loop, err error) {
	l = &Loop{seed: seed, policy: policy}
	defer l.recovered(&err)
	l.world = make(ctx, seed)
	l.spec = l.world.spec()
	l.size(x)
	if x != nil || policy == nil {
		l.rng = rand.New(rand.NewPCG(seed, 0x1009))
	}
	return l, nil
}

func (l *Loop) size(x *Experience) {
	width := max(1, len(l.spec.Low))
	l.obs, l.action = make([]float32, l.spec.Size()), make([]float32, width)
	if x != nil {
		l.extra = make([]float32, x.Extra*width)
		if x.Adder.kind != "" {
			l.adding = &adding{Adder: x.Adder, obs: len(l.obs), action: width, extra: len(l.extra)}
		}
	}
}

// Load has the policy act by other weights, from the next step on.
func (l *Loop) Load(w Weights) error {
	if l.policy == nil {
		return nil
	}
	if err := l.policy.Load(w); err != nil {
		return err
	}
	l.acted = w.Steps
	return nil
}

// Step makes one step, and reports the episode that it ended: nil where it goes on.
func (l *Loop) Step() (ended *Episode, err error) {
	defer l.recovered(&err)
	if !l.on {
		if err := l.begin(); err != nil {
			return nil, err
		}
	}
	l.now.Steps++ // a panic is of this step, as Check says it too
	l.act()
	s := l.world.step(int(l.action[0]), l.action)
	l.now.Return += float64(s.Reward)
	if err := l.checkShown(s.Obs, s.Reward); err != nil {
		return nil, err
	}
	if l.adding != nil {
		l.items = l.adding.add(l.items, l.action, l.extra, &s, l.acted)
	}
	copy(l.obs, s.Obs)
	if !s.Done() {
		if l.now.Steps == l.spec.MaxSteps {
			return nil, l.wrong(goesOnAfterMaxSteps, l.now.Steps)
		}
		return nil, nil
	}
	l.on = false
	l.number++
	e := l.now
	return &e, nil
}

// Episode plays to the end of an episode.
func (l *Loop) Episode() (Episode, error) {
	for {
		if e, err := l.Step(); err != nil {
			return Episode{}, err
		} else if e != nil {
			return *e, nil
		}
	}
}

// Take returns the items that are complete, and forgets them.
func (l *Loop) Take() []Trajectory {
	items := l.items
	l.items = nil
	return items
}

// begin resets the environment.
func (l *Loop) begin() error {
	l.now = Episode{}
	obs := l.world.reset()
	if err := l.checkShown(obs, 0); err != nil {
		return err
	}
	if spec := l.world.spec(); !reflect.DeepEqual(spec, l.spec) {
		return l.wrong("Spec has changed: %+v, it was %+v", spec, l.spec)
	}
	copy(l.obs, obs)
	if l.adding != nil {
		l.adding.first(obs)
	}
	l.on = true
	return nil
}

// act asks the policy, and looks at what it says.
func (l *Loop) act() {
	if l.policy == nil {
		l.spec.random(l.rng, l.action)
		return
	}
	l.policy.Act(l.obs, l.rng, l.action, l.extra)
	if l.spec.Actions > 0 {
		if a := int(l.action[0]); float32(a) != l.action[0] || !Valid(&l.spec, a) {
			panic(l.wrong("the policy wants action %v of %d", l.action[0], l.spec.Actions))
		}
	} else if !Valid(&l.spec, l.action) {
		panic(l.wrong("the policy wants action %v, between %v and %v", l.action, l.spec.Low, l.spec.High))
	}
}

// checkShown checks what the environment shows.
func (l *Loop) checkShown(obs []float32, reward float32) error {
	if len(obs) != len(l.obs) {
		return l.wrong("an observation has %d numbers, and the shape %v has %d", len(obs), l.spec.Obs, len(l.obs))
	}
	for i, x := range obs {
		if !finite(x) {
			return l.wrong("number %d of an observation is %v", i, x)
		}
	}
	if !finite(reward) {
		return l.wrong("a reward is %v", reward)
	}
	if l.huge != nil && math.Abs(float64(reward)) > hugeReward {
		l.huge(l, reward)
	}
	return nil
}

// wrong is an error of this place, after which the episode is over.
func (l *Loop) wrong(format string, args ...any) *EnvError {
	l.on = false
	return &EnvError{Name: l.spec.Name, Seed: l.seed, Episode: l.number, Step: l.now.Steps, What: fmt.Sprintf(format, args...)}
}

func (l *Loop) recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case *EnvError:
		l.on = false
		*err = r
	default:
		e := l.wrong("panic: %v", r)
		e.Trace = string(debug.Stack())
		*err = e
	}
}

// random writes a random action.
func (s *Spec) random(rng *rand.Rand, action []float32) {
	if s.Actions > 0 {
		action[0] = float32(rng.IntN(s.Actions))
		return
	}
	for i, low := range s.Low {
		share := rng.Float32()
		action[i] = max(low, min(s.High[i], low*(1-share)+s.High[i]*share))
	}
}

// maker makes an environment, whose life is that of ctx at most.
type maker func(ctx context.Context, seed uint64) *world

func worlds[A Action](make func(seed uint64) Env[A]) maker {
	return worldsOn(func(_ context.Context, seed uint64) Env[A] { return make(seed) })
}

// worldsOn takes the type of the actions away.
func worldsOn[A Action](make func(ctx context.Context, seed uint64) Env[A]) maker {
	_, vector := any(*new(A)).([]float32)
	return func(ctx context.Context, seed uint64) *world {
		env := make(ctx, seed)
		if env == nil {
			panic("no environment was made")
		}
		return &world{vector, env.Spec, env.Reset, func(i int, v []float32) Step {
			action := any(i)
			if vector {
				action = v
			}
			return env.Step(action.(A))
		}}
	}
}
