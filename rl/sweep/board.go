package sweep

import (
	"cmp"
	"slices"
)

// Trial is one setting, and how far it has come.
type Trial struct {
	Number   int     `json:"trial"` // from 0
	Setting  Setting `json:"setting"`
	Rungs    []Rung  `json:"rungs"`    // that it has made
	Solved   bool    `json:"solved"`   // it reached the Stop
	Diverged bool    `json:"diverged"` // in the rung after the last
	Target   int     `json:"-"`        // the rung that it is to make
}

// Rung is what a trial came to after so many steps.
type Rung struct {
	Steps  int     `json:"steps"`
	Return float64 `json:"return"` // the mean return of fresh episodes
}

// Last is the latest of the rungs; zero where there is none.
func (t *Trial) Last() Rung {
	if len(t.Rungs) == 0 {
		return Rung{}
	}
	return t.Rungs[len(t.Rungs)-1]
}

// open: its target is not made.
func (t *Trial) open() bool { return !t.Diverged && len(t.Rungs) <= t.Target }

// board is the state of a sweep.
type board struct {
	Of     string // what Plan and Space say, but for what may change when it goes on
	Trials []Trial
	Curve  []Rung // the best return after so many steps of all trials
	Steps  int
	Solved bool
}

// job is a rung that a trial is to make.
type job struct {
	Trial, Rung int
}

// next decides what to do with room for one more trial; ok is false where there is nothing. started are the jobs that run.
func (b *board) next(p *Plan, draw func(n int) Setting, started map[job]bool) (j job, ok bool) {
	for i := range b.Trials { // those that ran when the sweep ended early
		if t := &b.Trials[i]; t.open() && !started[job{i, t.Target}] {
			return job{i, t.Target}, true
		}
	}
	for rung := len(p.Search.rungs(p.Steps)) - 2; rung >= 0; rung-- {
		if i := b.promotable(rung, p.Search.eta); i >= 0 {
			b.Trials[i].Target++
			return job{i, rung + 1}, true
		}
	}
	n := len(b.Trials)
	if n == p.Trials {
		return j, false
	}
	b.Trials = append(b.Trials, Trial{Number: n, Setting: draw(n)})
	return job{n, 0}, true
}

// promotable is the best trial of those among the best 1/eta of a rung that have not gone on from there; -1 where there is none. One that diverged on
// the way to the rung counts as its worst.
func (b *board) promotable(rung, eta int) int {
	var made []int
	fallen := 0
	for i := range b.Trials {
		switch t := &b.Trials[i]; {
		case len(t.Rungs) > rung:
			made = append(made, i)
		case t.Diverged && t.Target == rung:
			fallen++
		}
	}
	slices.SortStableFunc(made, func(x, y int) int { return cmp.Compare(b.Trials[y].Rungs[rung].Return, b.Trials[x].Rungs[rung].Return) })
	for _, i := range made[:min(len(made), (len(made)+fallen)/eta)] {
		if b.Trials[i].Target == rung {
			return i
		}
	}
	return -1
}

// takeResult takes what came of a job.
func (b *board) takeResult(j job, c *came) {
	t := &b.Trials[j.Trial]
	b.Steps += c.Steps - t.Last().Steps
	if t.Diverged = c.Diverged; c.Diverged {
		return
	}
	t.Solved = c.Solved
	b.Solved = b.Solved || c.Solved
	t.Rungs = append(t.Rungs, Rung{c.Steps, c.Return})
	b.Curve = append(b.Curve, Rung{b.Steps, b.Trials[b.best()].Last().Return})
}

// best is the trial with the highest return, one that reached the Stop before others; -1 where no trial has made a rung.
func (b *board) best() int {
	best := -1
	for i := range b.Trials {
		if t := &b.Trials[i]; len(t.Rungs) > 0 && (best < 0 || better(t, &b.Trials[best]) < 0) {
			best = i
		}
	}
	return best
}

// better orders trials, the best first; those without a rung are the last.
func better(a, b *Trial) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	return cmp.Or(first(len(a.Rungs) > 0, len(b.Rungs) > 0), first(a.Solved, b.Solved), cmp.Compare(b.Last().Return, a.Last().Return))
}

// clone shares nothing that changes with b.
func (b *board) clone() board {
	c := *b
	c.Curve, c.Trials = slices.Clone(b.Curve), slices.Clone(b.Trials)
	for i := range c.Trials {
		c.Trials[i].Rungs = slices.Clone(c.Trials[i].Rungs)
	}
	return c
}
