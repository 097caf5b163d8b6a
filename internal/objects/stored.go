package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// storedSource brings back a value whose bytes are in this node's store alone.
type storedSource struct {
	o      *Objects
	id     raysys.TaskID // of the submission
	object *objectstore.Object
	plan   *codec.Plan
	size   int64
	refs   []*core.Future
}

func (s *storedSource) Name() string {
	return "object " + s.object.ID().String() + " of this node's store"
}
func (s *storedSource) ID() raysys.TaskID { return s.id }
func (s *storedSource) Cancelled()        {}

// Refers implements core.Referring.
func (s *storedSource) Refers() []*core.Future { return s.refs }

// Remake implements core.Remaker.
func (s *storedSource) Remake(c *core.Future, lost error, done func(core.Source, error)) {
	if s.o.refs == nil {
		done(nil, lost)
		return
	}
	s.o.refs.RemakeOwn(c, lost, done)
}

// Lost returns why the bytes are lost, nil while they are not.
func (s *storedSource) Lost() error { return s.object.Lost() }

// Where implements core.Located.
func (s *storedSource) Where() (core.NodeKey, int64) { return core.NodeKey{}, s.size }

// Fetch implements core.Source.
func (s *storedSource) Fetch(into any, done func(error)) {
	go func() {
		// Without a deadline: the end of the store ends the read.
		b, err := s.object.Bytes(context.Background())
		if err == nil {
			err = decodeShared(b, into, s.refs)
		}
		done(s.elsewhere(lostObject(err)))
	}()
}

// elsewhere looks for a copy when this node's bytes are lost, as by a damaged file: it returns a core.Elsewhere where the
// directory names one, else err.
func (s *storedSource) elsewhere(err error) error {
	o := s.o
	if o.dir == nil || !errors.Is(err, raysys.ErrObjectLost) {
		return err
	}
	a, bad := o.dir.FindWait(o.ctx, registry.ObjectKey(s.object.ID()))
	if bad != nil {
		return fmt.Errorf("%w (here: %v)", unknownCopies(bad), err)
	}
	if !slices.ContainsFunc(a.Record.At, func(l registry.Location) bool { return l.Node != o.self() }) {
		return err
	}
	d := refs.Description{OID: s.object.ID(), Owner: o.self(), Size: s.size, Refs: s.refs}
	return &core.Elsewhere{Source: o.NewSource(o.refs.Uncounted(o.self(), s.id), d)}
}

// View implements core.Viewer.
func (s *storedSource) View(into any, done func(func(), error)) {
	go func() {
		viewObject(context.Background(), s.object, into, s.refs, func(end func(), err error) { done(end, s.elsewhere(err)) })
	}()
}

// lostObject makes the error of a store that has ended match raysys.ErrObjectLost: its objects are lost with it.
func lostObject(err error) error {
	if errors.Is(err, raysys.ErrReleased) {
		return fmt.Errorf("%w: %w", raysys.ErrObjectLost, err)
	}
	return err
}
