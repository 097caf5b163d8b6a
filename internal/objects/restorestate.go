package objects

import (
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/wire"
)

// Restore implements graindir.Retainer.
func (o *Objects) Restore(written []byte) (refs []*core.Future, err error) {
	r := wire.NewReader(written)
	for r.Len() > 0 {
		c, err := o.states.restoreOuter(&r, 0)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

func (so *stateObjects) restoreOuter(r *wire.Reader, depth int) (*core.Future, error) {
	if depth > maxDepth {
		return nil, wire.ErrCorrupt
	}
	kind := r.Byte()
	switch kind {
	case writtenSmall:
		b := slices.Clone(r.Bytes())
		refs, err := so.restoreInner(r, depth)
		if err != nil {
			return nil, err
		}
		return &core.NewUntyped(so.o.job, &writtenValue{b, refs}).Future, nil
	case writtenObject, writtenTask:
		var run uint64
		var task raysys.TaskID
		if kind == writtenTask {
			run, task = r.Uvarint(), r.ID()
		}
		d := refs.Description{OID: r.ID()}
		id := r.ID()
		d.Owner, d.Size = wire.ReadNode(r), int64(r.Uvarint())
		var err error
		if d.Refs, err = so.restoreInner(r, depth); err != nil {
			return nil, err
		}
		if d.Owner == so.o.self() {
			if future, _ := so.o.kept.find(d.OID); future != nil {
				if run != 0 && so.o.refs != nil {
					future = so.o.refs.StoredHere(future, run, task)
				}
				return future, nil
			}
		}
		if so.o.refs == nil {
			return &core.NewUntyped(so.o.job, lostSource{id, d.Owner}).Future, nil
		}
		s := so.o.refs.Uncounted(d.Owner, id)
		if run != 0 {
			s = so.o.refs.Stored(d.Owner, run, task)
		}
		return &core.NewUntyped(so.o.job, so.o.NewSource(s, d)).Future, nil
	}
	return nil, errors.Join(wire.ErrCorrupt, r.Err())
}

func (so *stateObjects) restoreInner(r *wire.Reader, depth int) (refs []*core.Future, err error) {
	for range r.Count(1) {
		c, err := so.restoreOuter(r, depth+1)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

// writtenValue is a small value that was written with its reference.
type writtenValue struct {
	value []byte
	refs  []*core.Future
}

func (s *writtenValue) Name() string      { return "value of a stored reference" }
func (s *writtenValue) ID() raysys.TaskID { return raysys.TaskID{} }
func (s *writtenValue) Cancelled()        {}

// Fetch implements core.Source.
func (s *writtenValue) Fetch(into any, done func(error)) {
	done(refs.Decode(s.value, into, s.refs))
}

// lostSource stands for an object that an earlier process without a cluster had: its bytes ended with that process.
type lostSource struct {
	id    raysys.TaskID
	owner core.NodeKey
}

func (s lostSource) Name() string      { return "object of " + s.owner.String() }
func (s lostSource) ID() raysys.TaskID { return s.id }
func (s lostSource) Cancelled()        {}

// Fetch implements core.Source.
func (s lostSource) Fetch(_ any, done func(error)) {
	done(fmt.Errorf("%w: its owner %s is dead", raysys.ErrObjectLost, s.owner))
}
