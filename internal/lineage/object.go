package lineage

import (
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// The record of a task says where the object is that the task has computed. A reference that left before that does not know it, and the
// owner frees the object 2 s after the submitter's death, unless another node counts as a holder by then:
//
//	computed ──▶ the record: the owner, and its number of the object ··· the submitter is dead ··· adopt ──▶ FindObject
//	                                                                     there, or a copy ◀────────────────────┘
//	                                                                     neither ──▶ the task runs again
//
// It is a hint: no reference and no outcome waits for its commit.

// noteObject has the record say where the object of c is, a task of this node, as soon as the task has computed one.
func (l *Lineage) noteObject(k registry.TaskKey, rec *taskengine.Recipe, c *core.Future, known registry.TaskObject) {
	n := &objectNote{lineage: l, key: k, recipe: rec, known: known}
	if !c.Subscribe(&n.Waiter, n) {
		n.note(c)
	}
}

// objectNote waits until a task has settled. The task's future keeps it.
type objectNote struct {
	core.Waiter
	lineage *Lineage
	key     registry.TaskKey
	recipe  *taskengine.Recipe
	known   registry.TaskObject // what the record says
}

// Resolved implements core.Resolved.
func (n *objectNote) Resolved(w *core.Waiter) { n.note(w.Future()) }

func (n *objectNote) note(c *core.Future) {
	at := n.lineage.objectOf(c)
	if at == n.known || at == (registry.TaskObject{}) {
		return
	}
	n.lineage.computed(n.key, n.recipe.Submission(), at)
}

// computed has the record of a task of this node say where its object is, as soon as the store is there.
func (l *Lineage) computed(k registry.TaskKey, submission uint32, at registry.TaskObject) {
	l.cfg.Tasks.Change(registry.ComputedTask(k, submission, at), func(_ registry.TaskEntry, err error) {
		l.mu.Lock()
		mine := l.own[k] != nil
		l.mu.Unlock()
		if mine && away(err) {
			l.cfg.Runner.After(untilAgain, func() { l.computed(k, submission, at) })
		}
	})
}

// objectOf says where the object of c is; zero where c has settled otherwise, or not at all.
func (l *Lineage) objectOf(c *core.Future) registry.TaskObject {
	switch {
	case c == nil || !c.Object():
		return registry.TaskObject{}
	case refs.RemoteOf(c) != nil:
		s := refs.RemoteOf(c)
		return registry.TaskObject{Owner: s.Owner, Number: s.Number}
	}
	return registry.TaskObject{Owner: l.cfg.Self()}
}

// findObject finds an object by the record of its task: a nil Source says that it is lost. While a node that does not answer may have it
// that is asked again; err says that it did not answer for long.
func (l *Lineage) findObject(k registry.TaskKey, at registry.TaskObject, done func(core.Source, error)) {
	l.tryObject(k, at, 1, done)
}

func (l *Lineage) tryObject(k registry.TaskKey, at registry.TaskObject, try int, done func(core.Source, error)) {
	l.cfg.Refs.FindObject(at.Owner, at.Number, k.ID, func(src core.Source, err error) {
		switch {
		case err == nil:
			done(src, nil)
		case errors.Is(err, raysys.ErrObjectLost), !away(err):
			done(nil, nil)
		case try == maxTries:
			done(nil, err)
		default:
			l.cfg.Runner.Later(func() { l.tryObject(k, at, try+1, done) })
		}
	})
}

// found is the Source of an outcome that is an object, which Source brings.
type found struct{ core.Source }

// Fetch implements core.Source.
func (f found) Fetch(_ any, done func(error)) { done(&core.Elsewhere{Source: f.Source}) }
