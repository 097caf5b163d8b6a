package rl

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Adder says how the steps of an episode become items of replay.
type Adder struct {
	kind           string
	length, period int
	discount       float64
}

// NStep makes of each n steps that follow each other an item of one step, one step apart: its first observation and action, the discounted sum of the
// rewards, and the observation after the last of them. At the end of an episode shorter ones follow, so that each step begins one item. Its extras are those
// of the first step.
func NStep(n int, discount float64) Adder { return Adder{"NStep", n, 1, discount} }

// Sequence makes an item of each length steps, period steps apart: they overlap where period is less than length. At the end of an episode the steps
// that are in no item yet make one that is shorter. So do they at the end of an actor's turn where the Experience says Fresh: the episode goes on in
// the next item.
func Sequence(length, period int) Adder { return Adder{"Sequence", length, period, 1} }

// Episodes makes an item of each episode.
func Episodes() Adder { return Adder{"Episodes", math.MaxInt, math.MaxInt, 1} }

func (a Adder) String() string {
	switch a.kind {
	case "NStep":
		return fmt.Sprintf("NStep(%d, %g)", a.length, a.discount)
	case "Sequence":
		return fmt.Sprintf("Sequence(%d, %d)", a.length, a.period)
	}
	return a.kind + "()"
}

// check refuses what cannot be meant.
func (a Adder) check() error {
	switch {
	case a.kind == "":
		return errors.New("no adder: give rl.NStep, Sequence or Episodes")
	case a.length < 1 || a.period < 1 || a.period > a.length:
		return fmt.Errorf("%v: give a length of 1 or more, and a period of 1 to the length", a)
	case !(a.discount > 0 && a.discount <= 1):
		return fmt.Errorf("%v: give a discount above 0, and 1 at most", a)
	}
	return nil
}

// adding makes the items of one stream of steps.
type adding struct {
	Adder
	obs, action, extra int // numbers of one step

	open  Trajectory // steps that may be in a later item
	acted []int      // of each of them: how many steps the learner had made
	fresh int        // steps at the end of open that are in no item yet
}

// first begins an episode.
func (a *adding) first(obs []float32) {
	a.open = Trajectory{Obs: append(a.open.Obs[:0], obs...), Actions: a.open.Actions[:0], Rewards: a.open.Rewards[:0], Discounts: a.open.Discounts[:0], Extras: a.open.Extras[:0]}
	a.acted, a.fresh = a.acted[:0], 0
}

// add adds a step, and what is complete by it to items, which share no memory with it.
func (a *adding) add(items []Trajectory, action, extra []float32, s *Step, acted int) []Trajectory {
	o := &a.open
	a.acted = append(a.acted, acted)
	discount := float32(1)
	if s.Terminated {
		discount = 0
	}
	o.Obs = append(o.Obs, s.Obs...)
	o.Actions = append(o.Actions, action...)
	o.Extras = append(o.Extras, extra...)
	o.Rewards = append(o.Rewards, s.Reward)
	o.Discounts = append(o.Discounts, discount)
	a.fresh++
	if a.kind == "NStep" {
		if o.Len() == a.length && !s.Done() {
			items = a.fold(items)
		}
		for s.Done() && o.Len() > 0 {
			items = a.fold(items)
		}
		return items
	}
	if o.Len() == a.length || s.Done() && a.fresh > 0 {
		items = append(items, Trajectory{
			slices.Clone(o.Obs), slices.Clone(o.Actions), slices.Clone(o.Rewards), slices.Clone(o.Discounts), slices.Clone(o.Extras), a.acted[0],
		})
		a.fresh = 0
	}
	if o.Len() == a.length {
		a.forget(a.period)
	}
	return items
}

// cut makes an item of the steps at the end of a sequence that are in no item yet: the episode goes on in the next one.
func (a *adding) cut(items []Trajectory) []Trajectory {
	if a.kind != "Sequence" || a.fresh == 0 {
		return items
	}
	o := &a.open
	items = append(items, Trajectory{
		slices.Clone(o.Obs), slices.Clone(o.Actions), slices.Clone(o.Rewards), slices.Clone(o.Discounts), slices.Clone(o.Extras), a.acted[0],
	})
	a.first(slices.Clone(o.Obs[len(o.Obs)-a.obs:]))
	return items
}

// fold makes one step of all that are open, and forgets the first of them.
func (a *adding) fold(items []Trajectory) []Trajectory {
	o := &a.open
	sum, discount := 0.0, 1.0
	for i, r := range o.Rewards {
		sum += discount * float64(r)
		discount *= a.discount * float64(o.Discounts[i])
	}
	items = append(items, Trajectory{
		Obs:     slices.Concat(o.Obs[:a.obs], o.Obs[len(o.Obs)-a.obs:]),
		Actions: slices.Clone(o.Actions[:a.action]), Extras: slices.Clone(o.Extras[:a.extra]),
		Rewards: []float32{float32(sum)}, Discounts: []float32{float32(discount)}, Acted: a.acted[0],
	})
	a.forget(1)
	return items
}

// forget drops the first n open steps.
func (a *adding) forget(n int) {
	o := &a.open
	o.Obs = slices.Delete(o.Obs, 0, n*a.obs)
	o.Actions = slices.Delete(o.Actions, 0, n*a.action)
	o.Extras = slices.Delete(o.Extras, 0, n*a.extra)
	o.Rewards = slices.Delete(o.Rewards, 0, n)
	o.Discounts = slices.Delete(o.Discounts, 0, n)
	a.acted = slices.Delete(a.acted, 0, n)
}
