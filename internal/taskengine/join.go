package taskengine

import (
	"errors"
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// A turn that runs again, in a further attempt, submits its tasks again, under the same ids. Where lineage is durable it
// joins those that are recorded: other nodes may know them.
//
//	submit ──► held ──► Join ──┬── it is this node's ──────────► its dependencies, and so on, as any task
//	                           ├── another node has it ────────► it settles when that one has, with the Source there
//	                           └── its outcome is recorded ────► it settles with that

// Joiner is a core.Gate that knows the recorded tasks.
type Joiner interface {
	// Join has the task of rec recorded. done is called once, on any goroutine: with nil when it is to run here, with the
	// Source of its outcome, or with why it must not run.
	Join(rec *Recipe, done func(core.Source, error))
}

// joinerOf returns what tells whether a task that t submits is to be joined; nil where it is not asked.
func joinerOf(t *core.Turn) Joiner {
	if t.Attempt() < 2 {
		return nil
	}
	j, _ := t.Job().Gate.(Joiner)
	return j
}

// join lets a task that is held by d go on once it is known whether it is recorded.
func (r *record) join(j Joiner, d *deps) {
	rec, _ := r.recipeNow()
	if rec == nil {
		d.wait()
		return
	}
	j.Join(rec, func(src core.Source, err error) {
		switch {
		case err != nil:
			r.refuse(d, err)
		case src == nil:
			d.wait()
		default:
			r.fetch(src)
		}
	})
}

// fetch asks src for the outcome of the task.
func (r *record) fetch(src core.Source) {
	src.Fetch(reflect.New(r.spec.value.Type).Interface(), func(err error) { r.joined(src, err) })
}

// joined settles a task that another record has run: src has its outcome.
func (r *record) joined(src core.Source, err error) {
	e := engineOf(r.Future.Up())
	elsewhere := (*core.Elsewhere)(nil)
	switch {
	case errors.As(err, &elsewhere):
		src = elsewhere.Source
	case err != nil:
		r.settleFailed(err)
		return
	}
	if rec := recipeOf(&r.Future); rec != nil {
		rec.share(src)
	}
	if r.Future.Forward(src) {
		e.unhold(&r.Future)
		e.started(0)
	}
	r.drop()
}
