package refs

import (
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// localSource brings a value of this node: another node has answered that the value is here, or has sent a reference to it.
type localSource struct {
	future    *core.Future
	submitter *RemoteSource // nil where this node is the submitter
}

// ownedHere is the source of a future for a reference that arrives at the owner of the value. It keeps the submitter's
// future as long as a reference here does. The owner's own future cannot: the submitter's keeps that one.
type ownedHere struct{ *localSource }

// standIn is the source of a future that stands for one of this node.
type standIn interface{ local() *localSource }

func (s *localSource) local() *localSource { return s }

func (s *localSource) Name() string      { return s.future.Work().Name() }
func (s *localSource) ID() raysys.TaskID { return s.future.ID() }
func (s *localSource) Cancelled()        {}

// Behind implements core.Alias.
func (s *localSource) Behind() *core.Future { return s.future }

// Where implements core.Located.
func (s *localSource) Where() (at core.NodeKey, size int64) {
	w, _ := core.WhereaboutsOf(s.future)
	if w.Here {
		return core.NodeKey{}, w.Size
	}
	return w.NodeKey, w.Size
}

// Fetch implements core.Source.
func (s ownedHere) Fetch(_ any, done func(error)) { done(&core.Elsewhere{Source: s.localSource}) }

// Fetch implements core.Source.
func (s *localSource) Fetch(into any, done func(error)) {
	if err := s.future.Pin(); err != nil {
		done(err)
		return
	}
	whenHere(s.future, func(v any, err error) {
		defer s.future.Unpin()
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

// View implements core.Viewer: a value that is in a file is shown from there.
func (s *localSource) View(into any, done func(close func(), err error)) {
	v, ok := core.SourceOf(s.future).(core.Viewer)
	if !ok || !s.future.Absent() {
		s.Fetch(into, func(err error) { done(nil, err) })
		return
	}
	if err := s.future.Pin(); err != nil {
		done(nil, err)
		return
	}
	v.View(into, func(end func(), err error) {
		if err != nil || end == nil {
			s.future.Unpin()
			done(nil, err)
			return
		}
		done(func() { end(); s.future.Unpin() }, nil)
	})
}
