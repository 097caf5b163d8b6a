package lineage

import (
	"errors"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// A task that a parent submits may be recorded already, by the parent's last attempt.

// elsewhere says of a recipe that was to be recorded that its task has another submitter, or an outcome, in its record.
type elsewhere struct {
	record registry.TaskRecord
	here   *core.Future        // of an earlier attempt of what submitted the task, on this node
	object registry.TaskObject // that the last attempt has computed
}

// priorOf returns the future of a recorded task which an earlier attempt has submitted on this node, nil where there is none
// that is of use. Other nodes may know it.
func (l *Lineage) priorOf(k registry.TaskKey, rec *taskengine.Recipe) *core.Future {
	c := l.Find(k.Run, k.ID)
	if c == nil || c == rec.Future() || c.Failed() && (core.Untold(c) || orphaned(c)) {
		return nil
	}
	return c
}

func (e *elsewhere) Error() string { return "the task is recorded already" }

// Join implements taskengine.Joiner. Where the store does not answer for the patience, the task runs here.
func (l *Lineage) Join(rec *taskengine.Recipe, done func(core.Source, error)) {
	var known atomic.Pointer[elsewhere]
	d := &departure{lineage: l, then: func(err error) { l.join(rec, known.Load(), err, done) }}
	d.left.Store(2)
	l.records.recordRecipe(rec, func(err error) {
		if e := (*elsewhere)(nil); errors.As(err, &e) {
			known.Store(e)
		}
		d.done(err)
	})
	d.begin()
}

// join is Join when the record of the task is there, which may have another submitter, or an outcome: known.
func (l *Lineage) join(rec *taskengine.Recipe, known *elsewhere, err error, done func(core.Source, error)) {
	switch {
	case known == nil:
		done(nil, err)
	case known.here != nil:
		done(refs.Here(known.here), nil)
	case known.object != (registry.TaskObject{}):
		l.findObject(registry.TaskKey{Run: rec.Run(), ID: rec.ID()}, known.object, func(src core.Source, err error) {
			if src != nil {
				src = found{src}
				if known.object.Once {
					_ = rec.SetSpent() // the last attempt has run it
				}
			}
			done(src, err)
		})
	case len(known.record.Outcome) > 0:
		r := wire.NewReader(known.record.Outcome)
		in, err := l.readInput(&r)
		if err == nil {
			err = in.err
		}
		done(&stored{&in}, err)
	default:
		r, err := rec.Recording()
		if err != nil {
			done(nil, nil)
			return
		}
		l.Succeed(r.Run, r.ID, nil, func(src core.Source, err error) {
			if errors.Is(err, errUnrecorded) { // that submitter let go of it meanwhile: the task is this node's
				l.Join(rec, done)
				return
			}
			done(src, err)
		})
	}
}
