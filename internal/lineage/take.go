package lineage

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// A detached task with a name whose submitter is dead, at the worker that the leader hands it to.

// taking is how this node claims tasks of dead submitters.
type taking struct {
	l    *Lineage
	busy map[registry.TaskKey]bool // that it was asked to claim, and claims; Lineage.mu guards it
}

// canRun reports whether this node can run the task of a record.
func (tk *taking) canRun(t *registry.TaskRecord) bool {
	err := error(nil)
	switch {
	case len(t.Recipe) == 0: // it has settled
		return false
	case t.Recipe[0] > largeVersion:
		err = errVersion
	case !tk.l.cfg.Engine.Has(functionOf(t)):
		err = fmt.Errorf("%w: %s", raysys.ErrUnknownFunc, t.Function)
	default:
		return true
	}
	tk.l.cfg.Log("a task waits for another worker", "task", t.Name, "function", t.Function, "error", err)
	return false
}

func functionOf(t *registry.TaskRecord) string {
	return t.Function[min(len("task "), len(t.Function)):]
}

// claimTask claims a task, and runs it.
func (tk *taking) claimTask(k registry.TaskKey, over func()) {
	tk.l.cfg.Tasks.Change(registry.ClaimTask(k), func(e registry.TaskEntry, err error) {
		switch {
		case err != nil && tk.l.cfg.Runner.Err() == nil: // the claim may have been made
			tk.l.cfg.Runner.After(untilAgain, func() { tk.claimTask(k, over) })
			return
		case err == nil && e.Exists && !e.Refused && tk.l.Find(k.Run, k.ID) == nil:
			tk.runTask(k, &e.Record, over)
			return
		}
		over()
	})
}

// runTask runs a task that this node has claimed.
func (tk *taking) runTask(k registry.TaskKey, rec *registry.TaskRecord, over func()) {
	tk.l.large.openRecipe(k, rec.Recipe, func(recipe []byte, large *largeRecipe, err error) {
		switch {
		case tk.l.ends(): // the next submitter runs it
			over()
			return
		case err != nil && !errors.Is(err, raysys.ErrObjectLost): // a node that has the recipe is away
			tk.l.cfg.Log("a detached task waits for its recipe", "task", rec.Name, "error", err)
			tk.l.cfg.Runner.After(untilAgain, func() { tk.runTask(k, rec, over) })
			return
		}
		made := *rec
		made.Recipe = recipe
		tk.beginTask(k, &made, large, err)
		over()
	})
}

// beginTask runs a task whose recipe has come.
func (tk *taking) beginTask(k registry.TaskKey, rec *registry.TaskRecord, large *largeRecipe, err error) {
	var t taskengine.Adopted
	if err == nil {
		t, err = tk.l.remade(rec)
	}
	if errors.Is(err, errVersion) { // the node that comes in the place of this one may have it run
		tk.l.cfg.Log("a detached task waits for a newer program on this node", "task", rec.Name, "error", err)
		return
	}
	if err != nil { // it has ended as many nodes as it may, or its record is damaged: no node can
		if !errors.Is(err, raysys.ErrNodeDead) {
			err = fmt.Errorf("%w: %w", raysys.ErrObjectLost, err)
		}
		large.drop()
		tk.l.cfg.Log("a detached task cannot be run", "task", rec.Name, "error", err)
		tries := 0
		tk.l.change(registry.SettleTask(k, rec.Attempt, appendFailure(nil, k.ID, err)), &tries, func(registry.TaskEntry) {})
		return
	}
	tk.l.hold(k, t.Recipe, rec.Attempt, t.Future, large)
	t.Recipe.Begin()
}

// read reads the record of a name, until it has an outcome or a submitter that lives.
func (a *adoption) read() {
	l := a.lineage
	l.cfg.Tasks.Change(registry.FindTask(a.key), func(e registry.TaskEntry, err error) {
		c := l.Find(a.key.Run, a.key.ID)
		switch {
		case l.cfg.Runner.Err() != nil:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: %w", raysys.ErrClosed, l.cfg.Runner.Err()))
		case c != nil:
			a.end(l.cfg.Self(), refs.Here(c), nil)
		case away(err):
			a.again(err, a.claim)
		case err != nil:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: its record: %w", raysys.ErrObjectLost, err))
		case e.Refused:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: the cluster holds this node for dead", raysys.ErrFenced))
		case !e.Exists:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: another task has its name by now, or none: %w", raysys.ErrObjectLost, errUnrecorded))
		case len(e.Record.Outcome) > 0:
			src, err := l.outcome(&e.Record)
			a.end(l.cfg.Self(), src, err)
		case e.Record.Submitter != l.cfg.Self() && l.cfg.Alive(e.Record.Submitter):
			a.ask(e.Record.Submitter, e.Record.Attempt)
		default: // the leader hands it to a worker
			a.again(raysys.ErrNodeDead, a.claim)
		}
	})
}
