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

// recording is what this node enters in the records of tasks.
type recording struct {
	l        *Lineage
	entering map[*taskengine.Recipe][]func(error) // recipes that are being recorded, and who waits for that; Lineage.mu guards it
}

// recordRecipe has a recipe recorded, after those of its inputs. done is called once, on any goroutine: with nil when it is, or
// cannot be.
func (rs *recording) recordRecipe(rec *taskengine.Recipe, done func(error)) {
	rs.l.mu.Lock()
	if waiting, busy := rs.entering[rec]; busy {
		rs.entering[rec] = append(waiting, done)
		rs.l.mu.Unlock()
		return
	}
	if rec.Run() != 0 {
		rs.l.mu.Unlock()
		done(nil)
		return
	}
	rs.entering[rec] = []func(error){done}
	rs.l.mu.Unlock()
	r, err := rec.Recording()
	if err != nil || r.Run == 0 { // it cannot be made again
		rs.endRecording(rec, nil)
		return
	}
	rs.recordInputs(&r, func(err error) {
		if err != nil {
			rs.endRecording(rec, err)
			return
		}
		rs.enterTask(rec, &r)
	})
}

// recordInputs has the inputs of a recipe recorded. then is called once, on any goroutine.
func (rs *recording) recordInputs(r *taskengine.Recording, then func(error)) {
	inputs := &departure{lineage: rs.l, then: then}
	inputs.left.Store(1)
	for _, in := range r.Inputs {
		switch {
		case in.Recipe != nil && in.Recipe.Run() == 0:
			inputs.left.Add(1)
			rs.recordRecipe(in.Recipe, inputs.done)
		case in.Recipe == nil && in.Future != nil:
			inputs.waitForRecord(in.Future)
		}
	}
	inputs.done(nil)
}

// enterTask enters the record of a task whose inputs are recorded.
func (rs *recording) enterTask(rec *taskengine.Recipe, r *taskengine.Recording) {
	rs.l.large.fitRecipe(registry.TaskKey{Run: r.Run, ID: r.ID}, rec.Name(), rs.encodeRecipe(r), func(recipe []byte, large *largeRecipe, err error) {
		if err != nil {
			rs.failRecording(rec, err)
			return
		}
		rs.enterFit(rec, r, recipe, large)
	})
}

// failRecording ends the recording of a recipe that failed.
func (rs *recording) failRecording(rec *taskengine.Recipe, err error) {
	rs.l.cfg.Log("a reference leaves before its task is recorded", "task", rec.Name(), "error", err)
	rs.endRecording(rec, nil)
}

// enterFit is enterTask with what the record shall have of the recipe.
func (rs *recording) enterFit(rec *taskengine.Recipe, r *taskengine.Recording, recipe []byte, large *largeRecipe) {
	k, object := registry.TaskKey{Run: r.Run, ID: r.ID}, rs.l.objectOf(rec.Future())
	rs.l.cfg.Tasks.Change(registry.EnterTask(k, registry.TaskRecord{Digest: r.Digest, Recipe: recipe, Object: object}), func(e registry.TaskEntry, err error) {
		switch {
		case errors.Is(err, raysys.ErrOverloaded) && rs.l.cfg.Runner.Err() == nil:
			rs.l.cfg.Runner.Later(func() { rs.enterFit(rec, r, recipe, large) })
		case err != nil:
			rs.failRecording(rec, err)
		case e.Refused && !e.Exists: // the leader may know before the node that it is no member
			err = fmt.Errorf("%w: task %s is not recorded: this node is no member", raysys.ErrFenced, rec.Name())
			rs.endRecording(rec, err)
		case e.Refused && e.Record.Digest != r.Digest:
			rs.l.large.openRecipe(k, e.Record.Recipe, func(recipe []byte, _ *largeRecipe, err error) {
				diff := ""
				if err != nil {
					diff = err.Error()
				} else {
					diff = difference(recipe, r.Body)
				}
				rs.endRecording(rec, fmt.Errorf("%w: task %s (%s) was recorded with other content: %s; its parent does something else in this attempt, or uses one number of Branch twice: %s",
					core.ErrNondeterministic, rec.Name(), r.ID, diff, core.CountAnew))
			})
		case e.Refused: // another node is its submitter by now
			rs.endRecording(rec, &elsewhere{record: e.Record})
		default:
			if prior := rs.l.priorOf(k, rec); prior != nil { // the last attempt submitted it on this node too
				rs.endRecording(rec, &elsewhere{here: prior})
				return
			}
			if c := rec.Future(); c != nil {
				if !bytes.Equal(e.Record.Recipe, recipe) { // this node had entered the task before
					large = rs.largeRecipeOf(k)
				}
				rs.l.owns(k, rec, e.Record.Attempt, large)
				rs.l.states.retainAll(k, e.Record.States)
				rs.l.noteObject(k, c, e.Record.Object)
			}
			switch at := e.Record.Object; {
			case len(e.Record.Outcome) > 0:
				rs.endRecording(rec, &elsewhere{record: e.Record})
			case at != object && at != (registry.TaskObject{}): // the last attempt has computed it
				rs.endRecording(rec, &elsewhere{object: at})
			default:
				rs.endRecording(rec, nil)
			}
		}
	})
}

// largeRecipeOf returns the recipe of a task of this node where that is an object; else nil.
func (rs *recording) largeRecipeOf(k registry.TaskKey) *largeRecipe {
	rs.l.mu.Lock()
	defer rs.l.mu.Unlock()
	if t := rs.l.own[k]; t != nil {
		return t.large
	}
	return nil
}

// encodeRecipe returns what readRecipe reads. The inputs are recorded.
func (rs *recording) encodeRecipe(r *taskengine.Recording) []byte {
	const aboutHead, aboutInput = 8, 32
	dst := append(make([]byte, 0, aboutHead+aboutInput*len(r.Inputs)+len(r.Body)), recordVersion)
	dst = binary.AppendUvarint(dst, uint64(len(r.Inputs)))
	for _, in := range r.Inputs {
		dst = appendInput(dst, in, rs.l.cfg.Self())
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

// endRecording ends the recording of a recipe.
func (rs *recording) endRecording(rec *taskengine.Recipe, err error) {
	rs.l.mu.Lock()
	waiting := rs.entering[rec]
	delete(rs.entering, rec)
	rs.l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// tellOutcome has the outcome of c, a recorded task that has settled with what travels along, recorded: no node learns of an
// outcome that the next submitter would not know.
func (rs *recording) tellOutcome(rec *taskengine.Recipe, c *core.Future, done func(error)) {
	k := registry.TaskKey{Run: rec.Run(), ID: c.ID()}
	switch {
	case (k.Named() || c.Failed()) && !rec.Told() && rs.l.ends():
		return // who waits learns of this node's end: it may be what the task failed by
	case orphaned(c): // what is told, if anything is, is the outcome of its next attempt
		done(c.Failure())
		return
	case rec.Told():
		done(nil)
		return
	}
	rs.l.mu.Lock()
	t := rs.l.own[k]
	if t == nil { // another node is its submitter
		rs.l.mu.Unlock()
		rec.SetTold()
		done(nil)
		return
	}
	if t.waiting = append(t.waiting, done); len(t.waiting) > 1 {
		rs.l.mu.Unlock()
		return
	}
	rs.l.mu.Unlock()
	out, err := appendOutcome(nil, c, rs.l.cfg.Self())
	switch {
	case err == nil:
	case k.Named():
		out = appendFailure(nil, c.ID(), err)
	default: // it cannot travel either
		rec.SetTold()
		rs.answerWaiting(&t.waiting, nil)
		return
	}
	rs.settleTask(t, k, rec, out)
}

// settleTask has an outcome recorded, and ends tellOutcome.
func (rs *recording) settleTask(t *task, k registry.TaskKey, rec *taskengine.Recipe, out []byte) {
	rs.l.cfg.Tasks.Change(registry.SettleTask(k, rec.Submission(), out), func(e registry.TaskEntry, err error) {
		switch {
		case err != nil && (k.Named() || away(err)): // no other node learns of it before
			if k.Named() && errors.Is(err, raysys.ErrTooLarge) {
				out = appendFailure(nil, k.ID, err)
			}
			rs.l.cfg.Runner.After(untilAgain, func() { rs.settleTask(t, k, rec, out) })
			return
		case err != nil:
			rs.l.cfg.Log("an outcome is told before it is recorded", "task", rec.Name(), "error", err)
		case e.Refused && e.Exists:
			rs.answerWaiting(&t.waiting, refused(rec, &e.Record))
			return
		}
		rec.SetTold()
		rs.answerWaiting(&t.waiting, nil)
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

// answerWaiting calls the functions that wait in a list of a task, and empties the list.
func (rs *recording) answerWaiting(list *[]func(error), err error) {
	rs.l.mu.Lock()
	waiting := *list
	*list = nil
	rs.l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}
