package lineage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// record has a recipe recorded, after those of its inputs. done is called once, on any goroutine: with nil when it is, or
// cannot be.
func (l *Lineage) record(rec *taskengine.Recipe, done func(error)) {
	l.mu.Lock()
	if waiting, busy := l.entering[rec]; busy {
		l.entering[rec] = append(waiting, done)
		l.mu.Unlock()
		return
	}
	if rec.Run() != 0 {
		l.mu.Unlock()
		done(nil)
		return
	}
	l.entering[rec] = []func(error){done}
	l.mu.Unlock()
	r, err := rec.Recording()
	if err != nil || r.Run == 0 { // it cannot be made again
		l.recorded(rec, nil)
		return
	}
	l.recordInputs(&r, func(err error) {
		if err != nil {
			l.recorded(rec, err)
			return
		}
		l.enter(rec, &r)
	})
}

// recordInputs has the inputs of a recipe recorded. then is called once, on any goroutine.
func (l *Lineage) recordInputs(r *taskengine.Recording, then func(error)) {
	inputs := &departure{lineage: l, then: then}
	inputs.left.Store(1)
	for _, in := range r.Inputs {
		switch {
		case in.Recipe != nil && in.Recipe.Run() == 0:
			inputs.left.Add(1)
			l.record(in.Recipe, inputs.done)
		case in.Recipe == nil && in.Future != nil:
			inputs.look(in.Future)
		}
	}
	inputs.done(nil)
}

// enter enters the record of a task whose inputs are recorded.
func (l *Lineage) enter(rec *taskengine.Recipe, r *taskengine.Recording) {
	l.fit(registry.TaskKey{Run: r.Run, ID: r.ID}, rec.Name(), l.recipe(r), func(recipe []byte, large *largeRecipe, err error) {
		if err != nil {
			l.unrecorded(rec, err)
			return
		}
		l.enterFit(rec, r, recipe, large)
	})
}

// unrecorded ends the recording of a recipe that failed.
func (l *Lineage) unrecorded(rec *taskengine.Recipe, err error) {
	l.cfg.Log("a reference leaves before its task is recorded", "task", rec.Name(), "error", err)
	l.recorded(rec, nil)
}

// enterFit is enter with what the record shall have of the recipe.
func (l *Lineage) enterFit(rec *taskengine.Recipe, r *taskengine.Recording, recipe []byte, large *largeRecipe) {
	k, object := registry.TaskKey{Run: r.Run, ID: r.ID}, l.objectOf(rec.Future())
	l.cfg.Tasks.Change(registry.EnterTask(k, registry.TaskRecord{Digest: r.Digest, Recipe: recipe, Object: object}), func(e registry.TaskEntry, err error) {
		switch {
		case errors.Is(err, raysys.ErrOverloaded) && l.cfg.Runner.Err() == nil:
			l.cfg.Runner.Later(func() { l.enterFit(rec, r, recipe, large) })
		case err != nil:
			l.unrecorded(rec, err)
		case e.Refused && e.Record.Digest != r.Digest:
			l.open(k, e.Record.Recipe, func(recipe []byte, _ *largeRecipe, err error) {
				diff := ""
				if err != nil {
					diff = err.Error()
				} else {
					diff = difference(recipe, r.Body)
				}
				l.recorded(rec, fmt.Errorf("%w: task %s (%s) was recorded with other content: %s; its parent does something else in this attempt, or uses one number of Branch twice: %s",
					core.ErrNondeterministic, rec.Name(), r.ID, diff, core.CountAnew))
			})
		case e.Refused: // another node is its submitter by now
			l.recorded(rec, &elsewhere{record: e.Record})
		default:
			if prior := l.priorOf(k, rec); prior != nil { // the last attempt submitted it on this node too
				l.recorded(rec, &elsewhere{here: prior})
				return
			}
			if c := rec.Future(); c != nil {
				if !bytes.Equal(e.Record.Recipe, recipe) { // this node had entered the task before
					large = l.largeRecipeOf(k)
				}
				l.owns(k, rec, e.Record.Attempt, large)
				l.retainAll(k, e.Record.States)
				l.noteObject(k, c, e.Record.Object)
			}
			switch at := e.Record.Object; {
			case len(e.Record.Outcome) > 0:
				l.recorded(rec, &elsewhere{record: e.Record})
			case at != object && at != (registry.TaskObject{}): // the last attempt has computed it
				l.recorded(rec, &elsewhere{object: at})
			default:
				l.recorded(rec, nil)
			}
		}
	})
}

// largeRecipeOf returns the recipe of a task of this node where that is an object; else nil.
func (l *Lineage) largeRecipeOf(k registry.TaskKey) *largeRecipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.own[k]; t != nil {
		return t.large
	}
	return nil
}

// recipe returns what readRecipe reads. The inputs are recorded.
func (l *Lineage) recipe(r *taskengine.Recording) []byte {
	const aboutHead, aboutInput = 8, 32
	dst := append(make([]byte, 0, aboutHead+aboutInput*len(r.Inputs)+len(r.Body)), recordVersion)
	dst = binary.AppendUvarint(dst, uint64(len(r.Inputs)))
	for _, in := range r.Inputs {
		dst = appendInput(dst, in, l.cfg.Self())
	}
	return wire.AppendBytes(dst, r.Body)
}

// difference says in what a task differs from the recorded one.
func difference(recorded, body []byte) string {
	r := wire.NewReader(recorded)
	if v := r.Byte(); v != recordVersion {
		return errVersion.Error()
	}
	for range r.Count(1) {
		if _, err := (*Lineage)(nil).readInput(&r); err != nil {
			return err.Error()
		}
	}
	recorded = r.Bytes()
	if err := r.Err(); err != nil {
		return err.Error()
	}
	return taskengine.Difference(recorded, body)
}

// recorded ends the recording of a recipe.
func (l *Lineage) recorded(rec *taskengine.Recipe, err error) {
	l.mu.Lock()
	waiting := l.entering[rec]
	delete(l.entering, rec)
	l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// tell has the outcome of c, a recorded task that has settled with what travels along, recorded: no node learns of an
// outcome that the next submitter would not know.
func (l *Lineage) tell(rec *taskengine.Recipe, c *core.Future, done func(error)) {
	k := registry.TaskKey{Run: rec.Run(), ID: c.ID()}
	switch {
	case (k.Named() || c.Failed()) && !rec.Told() && l.ends():
		return // who waits learns of this node's end: it may be what the task failed by
	case orphaned(c): // what is told, if anything is, is the outcome of its next attempt
		done(c.Failure())
		return
	case rec.Told():
		done(nil)
		return
	}
	l.mu.Lock()
	t := l.own[k]
	if t == nil { // another node is its submitter
		l.mu.Unlock()
		rec.SetTold()
		done(nil)
		return
	}
	if t.waiting = append(t.waiting, done); len(t.waiting) > 1 {
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	out, err := appendOutcome(nil, c, l.cfg.Self())
	switch {
	case err == nil:
	case k.Named():
		out = appendFailure(nil, c.ID(), err)
	default: // it cannot travel either
		rec.SetTold()
		l.answer(&t.waiting, nil)
		return
	}
	l.settle(t, k, rec, out)
}

// settle has an outcome recorded, and ends tell.
func (l *Lineage) settle(t *task, k registry.TaskKey, rec *taskengine.Recipe, out []byte) {
	l.cfg.Tasks.Change(registry.SettleTask(k, rec.Submission(), out), func(e registry.TaskEntry, err error) {
		switch {
		case err != nil && (k.Named() || away(err)): // no other node learns of it before
			if k.Named() && errors.Is(err, raysys.ErrTooLarge) {
				out = appendFailure(nil, k.ID, err)
			}
			l.cfg.Runner.After(untilAgain, func() { l.settle(t, k, rec, out) })
			return
		case err != nil:
			l.cfg.Log("an outcome is told before it is recorded", "task", rec.Name(), "error", err)
		case e.Refused && e.Exists:
			l.answer(&t.waiting, refused(rec, &e.Record))
			return
		}
		rec.SetTold()
		l.answer(&t.waiting, nil)
	})
}

// recordedFailure is the failure that the record of a task has as the outcome, where the task itself has ended otherwise: Cancel came
// first. No node runs the task again.
type recordedFailure struct{ error }

func (e *recordedFailure) Unwrap() error { return e.error }

// refused says why the record of a task did not take an outcome: the record has a failure already, or names another submitter.
func refused(rec *taskengine.Recipe, at *registry.TaskRecord) error {
	if in, err := (*Lineage)(nil).readOutcome(at); err == nil && in.err != nil {
		return &recordedFailure{in.err}
	}
	return fmt.Errorf("%w: task %s has another submitter by now, %s", core.ErrObjectLost, rec.Name(), at.Submitter)
}

// answer calls the functions that wait in a list of a task, and empties the list.
func (l *Lineage) answer(list *[]func(error), err error) {
	l.mu.Lock()
	waiting := *list
	*list = nil
	l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}
