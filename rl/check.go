package rl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
)

const (
	checkEpisodes = 64      // at most: as many as show that an environment with episodes of one step is random
	checkSteps    = 2_000   // after which no other episode begins
	endless       = 100_000 // random steps that an episode without a MaxSteps has at most
)

// goesOnAfterMaxSteps is what Check and a run say of the same fault.
const goesOnAfterMaxSteps = "the episode goes on after step %d, which is MaxSteps"

// Check plays an environment with random actions and returns all that is wrong with it, each fault once, as *EnvErrors in an errors.Join:
//
//   - The Spec is whole, and stays the same.
//   - Observations have the shape of the Spec; they and rewards are numbers, neither NaN nor infinite.
//   - The same seed and actions make the same episodes bit for bit, also beside other environments of the process. Where the episodes of an
//     environment differ, those of another seed do too.
//   - An episode ends by MaxSteps, or without one within 100,000 random steps, and Reset leaves one that has not ended.
//   - Step refuses what it has to refuse, and nothing else panics.
//
// Random actions may never reach a fault that comes late in an episode.
func Check[A Action](make func(seed uint64) Env[A]) error {
	_, vector := any(*new(A)).([]float32)
	return check(vector, worlds(make))
}

// world is an environment without the type of its actions: step takes the int or the vector.
type world struct {
	vector bool
	spec   func() Spec
	reset  func() []float32
	step   func(i int, v []float32) Step
}

type checker struct {
	vector bool
	make   maker
	want   Spec            // what the first environment said
	found  map[string]bool // kinds of faults: many steps have the same one
	faults []error
}

func check(vector bool, make maker) error {
	c := &checker{vector: vector, make: make, found: map[string]bool{}}
	first := c.player(1)
	if first.world != nil {
		c.checkSpec(1)
	}
	if len(c.faults) > 0 { // there is nothing that could be played
		return errors.Join(c.faults...)
	}
	first.fresh = true
	for first.next() {
	}
	again, other, third := c.player(1), c.player(2), c.player(3)
	for more := true; more; {
		more = false
		for _, p := range []*player{again, other, third} {
			more = p.next() || more
		}
	}
	if i := differ(first.prints, again.prints); i >= 0 {
		first.goTo(i)
		first.fault("the same seed and actions lead elsewhere: something but the seed is random, environments share state, or Step keeps the slice of an action")
	} else if again.varies() && differ(again.prints, other.prints) < 0 && differ(again.prints, third.prints) < 0 {
		again.goTo(0)
		again.fault("episodes differ, but seeds %d and %d make the same ones as seed %d", other.seed, third.seed, again.seed)
	}
	c.checkRefusals()
	return errors.Join(c.faults...)
}

// specFaults is what is wrong with a Spec that a run begins with.
func specFaults(vector bool, s Spec, seed uint64) error {
	c := &checker{vector: vector, want: s, found: map[string]bool{}}
	c.checkSpec(seed)
	return errors.Join(c.faults...)
}

// checkSpec looks at what the first environment says of itself.
func (c *checker) checkSpec(seed uint64) {
	s, at := &c.want, &player{checker: c, seed: seed}
	if s.Name == "" {
		at.fault("Spec has no Name")
	}
	if s.MaxSteps < 0 {
		at.fault("MaxSteps is %d", s.MaxSteps)
	}
	if !finite64(s.Threshold) || !finite64(s.Random) {
		at.fault("Threshold is %v and Random %v: give 0 for what is not known", s.Threshold, s.Random)
	}
	for _, d := range s.Obs {
		if d < 1 {
			at.fault("the shape of observations is %v", s.Obs)
		}
	}
	switch {
	case !c.vector && (s.Actions < 1 || len(s.Low)+len(s.High) > 0):
		at.fault("actions are ints: Actions is %d, Low %v, High %v, want at least 1 and no bounds", s.Actions, s.Low, s.High)
	case c.vector && (s.Actions != 0 || len(s.Low) == 0 || len(s.Low) != len(s.High)):
		at.fault("actions are vectors: Actions is %d, Low %v, High %v, want 0 and a bound for each element", s.Actions, s.Low, s.High)
	case c.vector:
		for i, low := range s.Low {
			if high := s.High[i]; !finite(low) || !finite(high) || low >= high {
				at.fault("element %d of actions is between %v and %v", i, low, high)
			}
		}
	}
}

// checkRefusals has Step take what it has to refuse, in a new environment each.
func (c *checker) checkRefusals() {
	refuse := func(what string, reach func(*player) bool, i int, v []float32) {
		p := c.player(1)
		if !reach(p) {
			return
		}
		defer func() {
			r := recover()
			err, _ := r.(error)
			if refusal := (*EnvError)(nil); r == nil {
				p.note(what, "Step takes "+what+", where it has to panic with an *EnvError")
			} else if !errors.As(err, &refusal) {
				p.note(what, fmt.Sprintf("Step panics with %v for %s, where it has to panic with an *EnvError", r, what))
			}
		}()
		p.world.step(i, v)
	}
	valid := c.want.Low
	refuse("a step before Reset", func(p *player) bool { return p.world != nil }, 0, slices.Clone(valid))
	refuse("a step after the end", func(p *player) bool {
		for p.next() && !p.done {
		}
		return p.ended
	}, 0, slices.Clone(valid))
	if !c.vector {
		refuse("action -1", (*player).next, -1, nil)
		refuse("the action after the last", (*player).next, c.want.Actions, nil)
		return
	}
	refuse("a longer action", (*player).next, 0, append(slices.Clone(valid), 0))
	refuse("a shorter action", (*player).next, 0, slices.Clone(valid[1:]))
	for i := range valid {
		with := func(x float32) []float32 { v := slices.Clone(valid); v[i] = x; return v }
		refuse("NaN in an action", (*player).next, 0, with(float32(math.NaN())))
		refuse("an action below Low", (*player).next, 0, with(math.Nextafter32(valid[i], float32(math.Inf(-1)))))
		refuse("an action above High", (*player).next, 0, with(math.Nextafter32(c.want.High[i], float32(math.Inf(1)))))
	}
}

// player plays an environment, one call after the other.
type player struct {
	*checker
	world         *world // nil where it could not be made
	seed          uint64
	episode, step int
	fresh         bool // each action is a new slice; else one slice has them all
	done, ended   bool // done: Reset is the next call; ended: for the episode has ended
	steps         int
	actions       *rand.Rand
	action        []float32
	prints        []uint64 // a fingerprint of what each call returned
	begins        []int    // where each episode begins in prints
}

func (c *checker) player(seed uint64) (p *player) {
	p = &player{checker: c, seed: seed, episode: -1, done: true}
	defer p.recovered()
	w := c.make(context.Background(), seed)
	spec := w.spec()
	if p.world = w; reflect.DeepEqual(c.want, Spec{}) { // it is the first
		c.want = spec
		c.want.Obs, c.want.Low, c.want.High = slices.Clone(spec.Obs), slices.Clone(spec.Low), slices.Clone(spec.High)
	}
	return p
}

func (p *player) recovered() {
	if r := recover(); r != nil {
		p.world = nil
		before := len(p.faults)
		p.fault("panic: %v", r)
		for _, f := range p.faults[before:] {
			f.(*EnvError).Trace = string(debug.Stack())
		}
	}
}

func (p *player) fault(format string, args ...any) { p.note(format, fmt.Sprintf(format, args...)) }

// note keeps a fault, the first of its kind.
func (p *player) note(kind, what string) {
	if !p.found[kind] {
		p.found[kind] = true
		p.faults = append(p.faults, &EnvError{Name: p.want.Name, Seed: p.seed, Episode: max(0, p.episode), Step: p.step, What: what})
	}
}

// next makes one call and reports whether there was one to make.
func (p *player) next() bool {
	defer p.recovered()
	switch {
	case p.world == nil, p.done && p.episode >= 1 && (p.episode+1 >= checkEpisodes || p.steps >= checkSteps):
		return false
	case p.done:
		p.episode, p.step = p.episode+1, 0
		p.done, p.ended = false, false
		p.begins = append(p.begins, len(p.prints))
		// Two episodes each have the same actions: where they differ, the environment is random.
		p.actions = rand.New(rand.NewPCG(uint64(p.episode/2), 1))
		p.checkStep(Step{Obs: p.world.reset()})
	default:
		p.step++
		p.steps++
		s := p.world.step(p.draw())
		p.checkStep(s)
		p.ended = s.Done()
		abandoned := p.episode/2 == 1
		if p.want.MaxSteps == 0 && p.step == endless && !p.ended {
			p.fault("the episode has not ended after %d random steps, and the Spec has no MaxSteps: a run of it has no episodes, and its evaluations no end", endless)
			abandoned = true
		}
		if p.step == p.want.MaxSteps && !p.ended {
			p.fault(goesOnAfterMaxSteps, p.step)
			abandoned = true
		}
		p.done = p.ended || abandoned
	}
	return true
}

// draw returns a random action: elements of vectors are often at their bounds.
func (p *player) draw() (int, []float32) {
	if !p.vector {
		return p.actions.IntN(p.want.Actions), nil
	}
	if p.action == nil || p.fresh {
		p.action = make([]float32, len(p.want.Low))
	}
	for i := range p.action {
		low, high := p.want.Low[i], p.want.High[i]
		share := max(0, min(1, 2*p.actions.Float32()-0.5))
		p.action[i] = max(low, min(high, low*(1-share)+high*share))
	}
	return 0, p.action
}

// checkStep checks what a call returned, and keeps its fingerprint, by FNV-1a over numbers.
func (p *player) checkStep(s Step) {
	print := uint64(14695981039346656037)
	add := func(bits uint32) { print = (print ^ uint64(bits)) * 1099511628211 }
	if len(s.Obs) != p.want.Size() {
		p.fault("an observation has %d numbers, and the shape %v has %d", len(s.Obs), p.want.Obs, p.want.Size())
	}
	for i, x := range s.Obs {
		if !finite(x) {
			p.fault("number %d of an observation is %v", i, x)
		}
		add(math.Float32bits(x))
	}
	if !finite(s.Reward) {
		p.fault("a reward is %v", s.Reward)
	}
	add(math.Float32bits(s.Reward))
	for _, b := range []bool{s.Terminated, s.Truncated} {
		if add(0); b {
			add(1)
		}
	}
	p.prints = append(p.prints, print)
	if spec := p.world.spec(); !reflect.DeepEqual(spec, p.want) {
		p.fault("Spec has changed: %+v, want %+v", spec, p.want)
	}
}

// varies reports whether two episodes with the same actions differ.
func (p *player) varies() bool {
	ends := append(slices.Clone(p.begins), len(p.prints))
	for e := 0; e+2 < len(ends); e += 2 {
		if !slices.Equal(p.prints[ends[e]:ends[e+1]], p.prints[ends[e+1]:ends[e+2]]) {
			return true
		}
	}
	return false
}

// goTo sets the place of a fault: call i of all.
func (p *player) goTo(i int) {
	for p.episode = len(p.begins) - 1; p.episode > 0 && p.begins[p.episode] > i; p.episode-- {
	}
	if p.episode >= 0 {
		p.step = i - p.begins[p.episode]
	}
}

// differ returns the first place where a and b differ, -1 where they are equal.
func differ(a, b []uint64) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func finite(x float32) bool { return x-x == 0 }
