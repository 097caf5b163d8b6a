package objects

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/runner"
)

// Describe says which object c is. An object of this node is in the store when Describe returns.
func (o *Objects) Describe(c *core.Future) (d refs.Description, err error) {
	for {
		if s, ok := core.SourceOf(c).(*objectSource); ok {
			return s.Description, nil
		}
		v, err := c.Outcome()
		var e *core.Elsewhere
		switch {
		case errors.As(err, &e):
			switch s := e.Source.(type) {
			case *storedSource:
				return refs.Description{OID: s.object.ID(), Owner: o.self(), Size: s.size, Refs: s.refs}, nil
			case *objectSource:
				return s.Description, nil
			case *refs.RemoteSource: // a result that nothing here has read
				_, err := runner.Wait(o.ctx, func(done func(struct{}, error)) {
					s.Ask(func(err error) { done(struct{}{}, err) })
				})
				var at *core.Elsewhere
				if errors.As(err, &at) {
					if s, ok := at.Source.(*objectSource); ok {
						return s.Description, nil
					}
				}
				return d, err
			}
			return d, fmt.Errorf("%w: %s", raysys.ErrObjectLost, e)
		case err != nil:
			return d, err
		}
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return d, err
		}
		oid, err := o.ensure(c)
		if errors.As(err, &e) {
			continue // it was evicted meanwhile
		}
		return refs.Description{OID: oid, Owner: o.self(), Size: int64(plan.Size(value)), Refs: refsOf(plan, v)}, err
	}
}

// DescribeHere implements refs.Objects: the owner of the object has lost it, and this node has the value. Its copy is the
// object from now on, or the value itself where the copy is gone.
func (o *Objects) DescribeHere(c *core.Future) (refs.Description, error) {
	d, err := o.Describe(c)
	if err != nil || d.Owner == o.self() {
		return d, err
	}
	d.Owner = o.self()
	if obj := o.store.Lookup(d.OID); obj == nil || obj.Lost() != nil {
		d.OID, err = o.ensure(c)
	}
	return d, err
}
