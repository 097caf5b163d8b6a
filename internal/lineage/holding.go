package lineage

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// holding is a task with a name whose submitter this node is. It is held until its outcome is recorded.
type holding struct {
	core.Waiter
	lineage *Lineage
	key     registry.TaskKey
	rec     *taskengine.Recipe
	future  *core.Future

	// Guarded by Lineage.mu:
	attempt int   // that runs; 0: it waits
	since   int64 // a look that has found it running first, by the node's clock
	ran     bool  // for longRun
}

// Resolved implements core.Resolved.
func (h *holding) Resolved(*core.Waiter) {
	l, c := h.lineage, h.future
	switch {
	case l.ends(): // the next submitter runs it again
	case c.Object() && !c.Failed():
		refs.WhenHere(c, func(_ any, err error) { l.cfg.Runner.Run(func() { h.publish(err) }) })
	default:
		l.records.tellOutcome(h.rec, c, h.settled)
	}
}

// settled is called when the record has the outcome, or a failure in its place (recordedFailure), or another submitter.
func (h *holding) settled(err error) {
	l := h.lineage
	l.mu.Lock()
	delete(l.held, h.key)
	if t := h.future.OwnTurn(); err == nil && t != nil {
		t.Finish() // whoever submits it again gets the outcome
	}
	if cancelled := (*recordedFailure)(nil); err != nil && !errors.As(err, &cancelled) {
		delete(l.own, h.key) // the next submitter needs the object that the recipe may be
	}
	l.mu.Unlock()
	l.disown(h.key) // who asks from now on reads the record
	h.future.Unpin()
}

// publish gives an outcome that is an object, and that is here, a name, by which it is found as long as a node has it. err
// is why it did not come.
func (h *holding) publish(err error) {
	l, c := h.lineage, h.future
	names, ctx := l.cfg.Job.Objects.(core.Names), l.cfg.Runner.Context()
	out := recorded{form: inputNamed, id: c.ID(), name: drawnName("task", h.key, fmt.Sprint(h.rec.Submission()))}
	if err == nil {
		err = l.publish(c, out.name)
	}
	switch {
	case l.ends():
		return
	case away(err):
		l.cfg.Runner.After(untilAgain, func() { l.cfg.Runner.Run(func() { h.publish(nil) }) })
		return
	}
	l.mu.Lock()
	t := l.own[h.key]
	t.waiting = append(t.waiting, func(err error) {
		if err != nil { // the record does not name the object
			l.cfg.Runner.Run(func() { _ = names.Forget(ctx, out.name) })
		}
		h.settled(err)
	})
	l.mu.Unlock()
	if err != nil {
		l.records.settleTask(t, h.key, h.rec, appendFailure(nil, c.ID(), fmt.Errorf("keep the result of task %s: %w", h.rec.Name(), err)))
		return
	}
	l.records.settleTask(t, h.key, h.rec, out.appendNamed(nil))
}
