package system

import (
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// arrival waits until the value of a future is here.
type arrival struct {
	core.Waiter
	core *core.Core
	tell func(v any, err error)
}

// whenHere calls tell with a pointer to the value of c, which must only be read, once c has settled and its value is here,
// or with its failure. The caller has pinned c, and unpins it when it does not read the value any more.
func whenHere(c *core.Core, tell func(v any, err error)) {
	a := &arrival{core: c, tell: tell}
	if !c.Subscribe(&a.Waiter, a) {
		a.look(c)
	}
}

// Resolved implements core.Resolved.
func (a *arrival) Resolved(w *core.Waiter) { a.look(w.Core()) }

// look is called when at has settled: the future, or what brings its value.
func (a *arrival) look(at *core.Core) {
	for !at.Follow(&a.Waiter, a) {
		v, err := a.core.Outcome()
		lost := a.core.Failure()
		if err == nil || lost != nil || !a.core.Absent() {
			if lost != nil {
				err = lost
			}
			a.tell(v, err)
			return
		}
		at = a.core // it was evicted this moment
	}
}

// localSource is a value of this node that another one answered with.
type localSource struct{ core *core.Core }

func (s *localSource) Name() string      { return s.core.Work().Name() }
func (s *localSource) ID() raysys.TaskID { return s.core.ID() }
func (s *localSource) Cancelled()        {}

// Fetch implements core.Source.
func (s *localSource) Fetch(into any, done func(error)) {
	if err := s.core.Pin(); err != nil {
		done(err)
		return
	}
	whenHere(s.core, func(v any, err error) {
		defer s.core.Unpin()
		if err == nil {
			to, from := reflect.ValueOf(into), reflect.ValueOf(v)
			if to.Type() != from.Type() {
				err = raysys.ErrInvalidRef
			} else {
				to.Elem().Set(from.Elem())
			}
		}
		done(err)
	})
}
