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

// The record of a task says where the object is that the task has computed. A reference that left before that does not know it, and the
// owner frees the object 2 s after the submitter's death, unless another node counts as a holder by then:
//
//	computed ──▶ the record: the owner, and its number of the object ··· the submitter is dead ··· adopt ──▶ FindObject
//	               │                                                     there, or a copy ◀────────────────────┘
//	               └──▶ other nodes learn of the object                  neither ──▶ the task runs again
//
// It is a hint: while the store is away other nodes learn of the object after the patience of a departure.

// noteObject has the record, which says known, say where the object of c is, a task of this node, as soon as the task has computed one.
func (l *Lineage) noteObject(k registry.TaskKey, c *core.Future, known registry.TaskObject) {
	l.mu.Lock()
	if t := l.own[k]; t != nil {
		t.object = known
	}
	l.mu.Unlock()
	n := &objectNote{lineage: l, key: k}
	if !c.Subscribe(&n.Waiter, n) {
		n.Resolved(nil)
	}
}

// objectNote waits until a task has settled. The task's future keeps it.
type objectNote struct {
	core.Waiter
	lineage *Lineage
	key     registry.TaskKey
}

// Resolved implements core.Resolved.
func (n *objectNote) Resolved(*core.Waiter) { n.lineage.noted(n.key, func(error) {}) }

// noted has the record of a task say where the object is that the task has computed, if this node is the submitter. done is called once, on
// any goroutine: with nil when it does, or with which node has the task now.
func (l *Lineage) noted(k registry.TaskKey, done func(error)) {
	l.mu.Lock()
	t := l.own[k]
	if t == nil || k.Named() { // another node is the submitter, or the outcome has a name
		l.mu.Unlock()
		done(nil)
		return
	}
	first := t.noting == nil
	t.noting = append(t.noting, done)
	l.mu.Unlock()
	if first {
		l.note(k, t)
	}
}

// note enters where the object of a task is now, and ends noted when the record says so.
func (l *Lineage) note(k registry.TaskKey, t *task) {
	l.mu.Lock()
	c, known, mine := t.future.Value(), t.object, l.own[k] == t
	l.mu.Unlock()
	at := l.objectOf(c)
	if !mine || at == known || at == (registry.TaskObject{}) {
		l.records.answerWaiting(&t.noting, nil)
		return
	}
	l.cfg.Tasks.Change(registry.ComputedTask(k, t.attempt, at), func(e registry.TaskEntry, err error) {
		switch {
		case away(err):
			l.cfg.Runner.After(untilAgain, func() { l.note(k, t) })
			return
		case err != nil:
			l.cfg.Log("the record of a task does not say where its object is", "task", k.ID, "error", err)
			l.records.answerWaiting(&t.noting, nil)
			return
		case e.Refused && e.Exists:
			l.records.answerWaiting(&t.noting, fmt.Errorf("%w: task %s has another submitter by now, %s", core.ErrObjectLost, k.ID, e.Record.Submitter))
			return
		}
		l.mu.Lock()
		t.object = at
		l.mu.Unlock()
		l.note(k, t) // it may have been made again elsewhere meanwhile
	})
}

// objectOf says where the object of c is; zero where c has settled otherwise, or not at all.
func (l *Lineage) objectOf(c *core.Future) registry.TaskObject {
	if c == nil || !c.Object() {
		return registry.TaskObject{}
	}
	at := registry.TaskObject{Owner: l.cfg.Self()}
	if s := refs.RemoteOf(core.Behind(c)); s != nil {
		at.Owner, at.Number = s.Owner, s.Number
	}
	if rec, _ := taskengine.RecipeOf(c); rec != nil {
		at.Once = rec.Spent()
	}
	return at
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
