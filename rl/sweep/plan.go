package sweep

import (
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/raysys/raysys/rl"
)

// Plan says how a sweep goes.
type Plan struct {
	// Name keeps the sweep: Run with the name of one that has not ended goes on. Without a name it is kept only until it ends.
	Name string
	// Trials are the settings that are tried at most.
	Trials int
	// Steps of the environment are what a trial makes at most.
	Steps int
	// Search says how many of them each makes: Random unless set.
	Search Search
	// Stop ends the sweep when a trial reaches it, as it ends a run of rl. Unless set all trials are made.
	Stop rl.Stop
	// Episodes measure a trial at the end of each rung, as rl.Plan says: 10 at most unless set.
	Episodes int
	// Parallel trials run at the same time: one for each CPU of the nodes unless set.
	Parallel int
	// Seed decides which settings are drawn, and all chance of each trial: 1 unless set.
	Seed uint64
	// Log is a file that gets the trials as JSON, one a line, whenever a trial has come further. Empty: none.
	Log string
	// Progress gets a line on how the sweep goes, as progress.NewLine shows it: the standard error where it is a terminal, unless set. io.Discard: none.
	Progress io.Writer
}

// Search says how many steps trials make.
type Search struct{ eta, least int }

// Random has each trial make all steps.
func Random() Search { return Search{} }

// ASHA has a trial make least steps, and has the best of eta go on to eta times as many, and so on up to all steps.
func ASHA(eta, least int) Search { return Search{eta, least} }

func (s Search) String() string {
	if s.eta == 0 {
		return "random"
	}
	return fmt.Sprintf("ASHA(%d, %d)", s.eta, s.least)
}

// rungs are how many steps a trial has made at the end of each.
func (s Search) rungs(steps int) (list []int) {
	for n := s.least; s.eta > 1 && n < steps; n *= s.eta {
		list = append(list, n)
	}
	return append(list, steps)
}

func (p Plan) complete() (Plan, error) {
	bad := func(format string, args ...any) (Plan, error) {
		return p, fmt.Errorf("%w: sweep.%s", rl.ErrPlan, fmt.Sprintf(format, args...))
	}
	s := p.Search
	switch {
	case p.Trials < 1:
		return bad("Plan.Trials is %d: give 1 or more", p.Trials)
	case p.Steps < 1 || p.Steps > math.MaxInt32:
		return bad("Plan.Steps is %d: give 1 or more, and %d at most", p.Steps, math.MaxInt32)
	case p.Episodes < 0:
		return bad("Plan.Episodes is %d: give 0 or more", p.Episodes)
	case p.Parallel < 0:
		return bad("Plan.Parallel is %d: give 0 or more", p.Parallel)
	case s != Search{} && (s.eta < 2 || s.least < 1 || s.least > p.Steps):
		return bad("%v: give an eta of 2 or more, and a first rung of 1 to all %d steps", s, p.Steps)
	case p.Log != "" && filepath.Ext(p.Log) != ".jsonl":
		return bad("Plan.Log is %q: give a name that ends in .jsonl", p.Log)
	}
	if least := int(math.Pow(float64(s.eta), float64(len(s.rungs(p.Steps))-1))); s.eta > 0 && p.Trials < least {
		return bad("Plan.Trials is %d: %v has %d rungs up to %d steps, so give %d or more, or a larger first rung", p.Trials, s, len(s.rungs(p.Steps)), p.Steps, least)
	}
	if p.Seed == 0 {
		p.Seed = 1
	}
	return p, nil
}
