package lineage

import (
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
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
