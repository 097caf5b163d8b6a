package lineage

import (
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// The Sources of what a recorded task needs.

// successor brings the outcome of a recorded task from whichever node is its submitter.
type successor struct {
	lineage *Lineage
	run     uint64
	id      raysys.TaskID
	src     atomic.Pointer[core.Source]
}

func (s *successor) Name() string         { return "value of a recorded task" }
func (s *successor) ID() raysys.TaskID    { return s.id }
func (s *successor) Cancelled()           {}
func (s *successor) hold(src core.Source) { s.src.Store(&src) }

// Fetch implements core.Source.
func (s *successor) Fetch(into any, done func(error)) {
	if src := s.src.Load(); src != nil {
		(*src).Fetch(into, done)
		return
	}
	s.lineage.Succeed(s.run, s.id, nil, func(src core.Source, err error) {
		if err != nil {
			done(err)
			return
		}
		s.hold(src)
		src.Fetch(into, done)
	})
}

// patient is a Source that tries again while a node is away that may have the value: an input of a task that was recorded. The task would
// fail for good, and its parent, which could repeat it, is gone.
type patient struct {
	core.Source
	lineage *Lineage
	tries   int
}

// Fetch implements core.Source.
func (p *patient) Fetch(into any, done func(error)) {
	p.Source.Fetch(into, func(err error) {
		if away(err) && p.lineage.cfg.Runner.Err() == nil {
			p.lineage.pause(&p.tries, func() { p.Fetch(into, done) })
			return
		}
		done(err)
	})
}

// stored brings a value that was recorded.
type stored struct{ *recorded }

func (s *stored) Name() string      { return "recorded value" }
func (s *stored) ID() raysys.TaskID { return s.id }
func (s *stored) Cancelled()        {}

// Fetch implements core.Source.
func (s *stored) Fetch(into any, done func(error)) { done(refs.Decode(s.value, into, s.inner)) }

// failed has no value.
type failed struct {
	id  raysys.TaskID
	err error
}

func (f *failed) Name() string                  { return "lost value" }
func (f *failed) ID() raysys.TaskID             { return f.id }
func (f *failed) Cancelled()                    {}
func (f *failed) Fetch(_ any, done func(error)) { done(f.err) }

// A task that a parent submits may be recorded already, by the parent's last attempt.

// elsewhere says of a recipe that was to be recorded that its task has another submitter, or an outcome, in its record.
type elsewhere struct {
	record registry.TaskRecord
	here   *core.Future        // of an earlier attempt of what submitted the task, on this node
	object registry.TaskObject // that the last attempt has computed
}

func (e *elsewhere) Error() string { return "the task is recorded already" }

// The record of a task says where the object is that the task has computed. A reference that left before that does not know it, and the
// owner frees the object 2 s after the submitter's death, unless another node counts as a holder by then:
//
//	computed ──▶ the record: the owner, and its number of the object ··· the submitter is dead ··· adopt ──▶ FindObject
//	               │                                                     there, or a copy ◀────────────────────┘
//	               └──▶ other nodes learn of the object                  neither ──▶ the task runs again
//
// It is a hint: while the store is away other nodes learn of the object after the patience of a departure.

// objectNote waits until a task has settled. The task's future keeps it.
type objectNote struct {
	core.Waiter
	lineage *Lineage
	key     registry.TaskKey
}

// Resolved implements core.Resolved.
func (n *objectNote) Resolved(*core.Waiter) { n.lineage.noted(n.key, func(error) {}) }

// found is the Source of an outcome that is an object, which Source brings.
type found struct{ core.Source }

// Fetch implements core.Source.
func (f found) Fetch(_ any, done func(error)) { done(&core.Elsewhere{Source: f.Source}) }
