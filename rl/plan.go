package rl

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
)

// Plan says how a run goes.
type Plan struct {
	// Steps of the environment are made at most, by all actors together.
	Steps int
	// Until ends a call of Train after so many steps and keeps the run, which has a Name or a Dir: the Run is how far it has come, and Train with a later
	// Until, or none, goes on from there. 0: it makes all Steps.
	Until int
	// Actors play at the same time. 0 or 1 on a node that is alone trains in the goroutine of the caller, and repeats bit for bit by its seed; else actors
	// and learner are grains, which are placed on all nodes.
	Actors int
	// Stop ends the run before all steps are made: MeanReturn. Unless set there is no such end.
	Stop Stop
	// Seed decides all chance of a run in one goroutine: 1 unless set.
	Seed uint64
	// Name keeps the run: Train with the name of a run that has not ended goes on from its last checkpoint. A run without a name keeps its checkpoints
	// only until it ends. Experiment.Forget drops what is kept of a name. A name is kept in the cluster's store or in RAYSYS_DATA; without them in the
	// memory of the program, which the log says.
	Name string
	// Dir is a folder that keeps the run in files, with or without a cluster: its checkpoint, and its log, which is log.csv unless Log says otherwise. Train
	// with the Dir of a run that has not ended goes on from there, in another program too. It is made where there is none. When the run ends its
	// log stays.
	Dir string
	// Every is after how many steps of the environment a Point is made: a fiftieth of Steps unless set.
	Every int
	// Evaluate has Points measured by fresh episodes, as Episodes says. Unless set only those are at which the Stop may be reached, and the last.
	Evaluate bool
	// Episodes are what each measurement has: that of random actions, that of a Point and that of the end. What is given is played, whatever it costs.
	// Unless set it is 10, and fewer where steps are dear: the measurements of Points make a tenth of the steps of training at most, so that a Point that
	// has no room for an episode is not measured, and all that is no training a fifth of them. One episode is played at the end always. An
	// environment whose Spec has Random is not measured for that, and one of a short run that has not, maybe not at all: NaN.
	Episodes int
	// Log is a file that gets a line for each Point as it is made: CSV, or JSON where its name ends in .jsonl. Empty: none. A run
	// that goes on by its Name or Dir adds its lines to those of before, where those after the checkpoint come again, and its Points are the new ones. One
	// of them that begins anew leaves the lines of an older run in a file beside: run.csv becomes run.1.csv.
	Log string
	// TensorBoard is a folder that gets the points as a file of events, which TensorBoard reads beside those of other folders: tensorboard --logdir of
	// the folder above. The wall time of a point is that at which it was made. A run that goes on adds a file, which has TensorBoard drop the points
	// after the checkpoint, as they come again. One that begins anew leaves the events of an older run in a folder beside: runs/lift becomes
	// runs/lift.1. Empty: none.
	TensorBoard string
	// Progress gets a line on how the run goes, again and again, as progress.NewLine shows it: the standard error where it is a terminal, unless set.
	// io.Discard: none.
	Progress io.Writer
}

// Stop says when a run has reached its goal.
type Stop struct {
	episodes int
	goal     float64
}

// MeanReturn is reached when so many fresh episodes, played as well as the agent can, have a mean return of goal at least, and as many more have too. It
// is measured when a Point is made, once the returns of training come near: by Plan.Episodes first, and by these where their mean is at the goal.
func MeanReturn(episodes int, goal float64) Stop { return Stop{episodes, goal} }

// Goal is what MeanReturn was given; no episodes where there is no such end.
func (s Stop) Goal() (episodes int, goal float64) { return s.episodes, s.goal }

// fewEpisodes is what a measurement has unless Plan.Episodes is given.
const fewEpisodes = 10

func (p Plan) complete() (Plan, error) {
	bad := func(format string, args ...any) (Plan, error) {
		return p, fmt.Errorf("%w: %s", ErrPlan, fmt.Sprintf(format, args...))
	}
	switch {
	case p.Steps < 1:
		return bad("Plan.Steps is %d: give 1 or more", p.Steps)
	case p.Until < 0 || p.Until > 0 && !p.kept():
		return bad("Plan.Until is %d: give 0 or more, and a Name or a Dir that keeps the run", p.Until)
	case p.Actors < 0:
		return bad("Plan.Actors is %d: give 0 or more", p.Actors)
	case p.Every < 0:
		return bad("Plan.Every is %d: give 0 or more", p.Every)
	case p.Episodes < 0:
		return bad("Plan.Episodes is %d: give 0 or more", p.Episodes)
	case p.Stop.episodes < 0, p.Stop == Stop{} != (p.Stop.episodes == 0), math.IsNaN(p.Stop.goal):
		return bad("Plan.Stop is MeanReturn(%d, %v): give 1 episode or more, and a number", p.Stop.episodes, p.Stop.goal)
	}
	if ext := filepath.Ext(p.Log); p.Log != "" && ext != ".csv" && ext != ".jsonl" {
		return bad("Plan.Log is %q: give a name that ends in .csv or .jsonl", p.Log)
	}
	if p.Dir != "" && p.Log == "" {
		p.Log = filepath.Join(p.Dir, "log.csv")
	}
	if p.Seed == 0 {
		p.Seed = 1
	}
	if p.Until == 0 {
		p.Until = p.Steps
	}
	p.Until = min(p.Until, p.Steps)
	if p.Every == 0 {
		p.Every = max(1, p.Steps/50)
	}
	p.Every = min(p.Every, p.Steps)
	return p, nil
}

// asked reports whether measurements are played whatever they cost.
func (p *Plan) asked() bool { return p.Episodes > 0 }

// episodes is how many a measurement has at most.
func (p *Plan) episodes() int { return cmp.Or(p.Episodes, fewEpisodes) }

// most is how many steps an episode of an evaluation has that no MaxSteps bounds.
func (p *Plan) most() int {
	if p.asked() {
		return p.Steps
	}
	return max(1, p.Steps/pointShare)
}
