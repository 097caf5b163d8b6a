package operate

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
)

// The work of a driver that has not moved for stillFirst is logged, and again after pauses that double. Until then the watch looks each stillLook, and once
// soon after it begins, when the driver has submitted its first work: else what stands still from then on would be taken for what has moved since. The watch
// ends when nothing is open, or after a pause of stillMost, so that a node at rest has no timer; what waits next begins another.
const (
	stillSoon  = time.Second
	stillLook  = 15 * time.Second
	stillFirst = 4 * stillLook
	stillMost  = 24 * time.Hour
	// stillAsked bounds the work about which other nodes are asked for one line.
	stillAsked = 16
)

// The states of the watch.
const (
	noDriver int32 = iota // the node has made no driver
	unwatched
	watching
)

// Drives notes that the node has made a driver.
func Drives(o *Operator) {
	if o.watch.Swap(watching) != watching {
		o.Runner.Run(func() { watchDrivers(o) })
	}
}

// Blocks notes that work of the node waits for other work.
func Blocks(o *Operator) {
	if o.watch.Load() == unwatched && o.watch.CompareAndSwap(unwatched, watching) {
		o.Runner.Run(func() { watchDrivers(o) })
	}
}

// watchDrivers looks now and then whether the work of the node's drivers moves.
func watchDrivers(o *Operator) {
	runs, sum := runsHere(o), uint64(0)
	still, pause := time.Duration(0), stillSoon
	for pause <= stillMost && o.Runner.Pause(pause) {
		if n := runsHere(o); n != runs {
			runs, sum, still, pause = n, 0, 0, stillLook
			continue
		}
		o.watch.Store(unwatched) // before the look: what waits from here on is seen, or begins a watch
		w := openWork(o)
		if w.open == 0 && pause != stillSoon || !o.watch.CompareAndSwap(unwatched, watching) {
			return
		}
		if w.sum != sum {
			sum, still, pause = w.sum, 0, stillLook
			continue
		}
		still, pause = still+pause, max(pause, stillLook)
		if still >= stillFirst {
			sayStill(o, &w, still)
			pause = max(2*pause, 2*stillFirst)
		}
	}
	o.watch.Store(unwatched)
}

// runsHere is how many runs have ended on this node.
func runsHere(o *Operator) (n uint64) {
	counts := taskengine.Tally(o.Tasks)
	for _, r := range append(counts.Rows(tally.TaskKind), counts.Rows(tally.CallKind)...) {
		n += r.Outcomes.Runs()
	}
	return n
}

// stillWork is what is open of the drivers of this node.
type stillWork struct {
	open         int
	sum          uint64 // of what is open, and where: another as soon as some of it begins, ends or comes
	busy, queued []string
	calls        []string // kind/key of grains
}

func (w *stillWork) add(c *core.Future, stage string) (id string) {
	n := c.ID()
	w.open++
	w.sum += n.Hi ^ n.Lo*uint64(1+2*len(stage)) + core.Submitted(c.Up())
	return n.String()
}

// openWork looks at what the drivers of this node have submitted and what has not settled.
func openWork(o *Operator) (w stillWork) {
	note := func(list *[]string, what string) {
		if len(*list) < stillAsked {
			*list = append(*list, what)
		}
	}
	taskengine.EachTask(o.Tasks, func(t taskengine.Seen) {
		if taskengine.OptionsOf(t.Future) == nil || t.Future.Up().Kind() != core.TurnRoot {
			return
		}
		if id := w.add(t.Future, t.Stage); t.Stage == core.StageSent || t.Stage == core.StageRunning {
			note(&w.busy, id)
		} else {
			note(&w.queued, id)
		}
	})
	call := func(c *core.Future, grain graindir.ID) {
		if up := c.Up(); up.Kind() == core.TurnRoot && !up.Remote() && !c.Settled() {
			w.add(c, core.StageSent)
			note(&w.calls, grain.String())
		}
	}
	grainengine.EachSent(o.Grains, call)
	grainengine.EachActive(o.Grains, "", func(g grainengine.Active) {
		for _, t := range g.Turns() {
			if t.Call != nil {
				call(t.Call, g.ID)
			}
		}
	})
	return w
}

// sayStill logs what has lasted longest of that work, as the nodes that have it say.
func sayStill(o *Operator, w *stillWork, still time.Duration) {
	q := workQuery{IDs: w.busy}
	for _, grain := range w.calls {
		q.Grains = append(q.Grains, exact(grain))
	}
	if len(q.IDs)+len(q.Grains) == 0 {
		q.IDs = w.queued
	}
	what, get := "work of which no node says where it is", ""
	found, _, _ := findWork(o.Runner.Context(), o, q)
	var first *inspect.Task
	for i := range found {
		if t := &found[i]; first == nil || longest(t, first) < 0 {
			first = t
		}
	}
	switch {
	case first != nil && first.Grain != "":
		what, get = workText(first), first.Grain
	case first != nil:
		what, get = workText(first), first.ID
	case len(w.calls) > 0:
		what, get = "a call of "+w.calls[0], w.calls[0]
	}
	more := fmt.Sprintf("raysys list waits, raysys get %s", get)
	if o.Node.Cluster() == nil {
		more = "Node.Waits, Node.Get and Node.Stack of package system"
	}
	o.Log.Warn("work does not move", zap.String("for", what), zap.Duration("since", still), zap.Int("open", w.open), zap.String("more", more))
}

// workText says in a line where work is and what it does.
func workText(t *inspect.Task) string {
	s := fmt.Sprintf("%s %s on %s, %s", t.Function, t.ID, t.Node, t.State)
	switch {
	case len(t.On) > 0:
		s += fmt.Sprintf(" for %s %s", t.On[0].Name, t.On[0].ID)
	case t.For != "" && t.State == inspect.TaskWaiting:
		s += " for " + t.For
	}
	return s
}
