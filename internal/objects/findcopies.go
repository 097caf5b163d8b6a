package objects

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// FindCopies ends a wait for an owner that cannot be asked. When the value was an object and a node has a copy, done gets
// a core.Elsewhere; else it gets end. While the directory does not answer, the value is unreachable and not lost.
func (o *Objects) FindCopies(s *refs.RemoteSource, end error, done func(error)) {
	if s.ID().IsZero() || o.ctx.Err() != nil {
		done(end)
		return
	}
	oid := objectID(s.ID(), s.Owner)
	if obj := o.store.Lookup(oid); obj != nil && obj.Lost() == nil {
		done(&core.Elsewhere{Source: o.NewSource(s, refs.Description{OID: oid, Owner: s.Owner})})
		return
	}
	look := func(none func()) {
		o.dir.Find(registry.ObjectKey(oid), func(a registry.Entry, err error) {
			switch {
			case errors.Is(end, raysys.ErrUnreachable) && err != nil:
				done(end) // end says more than err
			case err != nil:
				done(s.Unreachable(fmt.Errorf("look for copies of it: %w", err)))
			case !a.Exists || len(a.Record.At) == 0:
				none()
			default:
				done(&core.Elsewhere{Source: o.NewSource(s, refs.Description{OID: oid, Owner: s.Owner, Size: a.Record.Size})})
			}
		})
	}
	none := func() { done(end) }
	look(func() {
		o.runner.Background(func() {
			if o.mesh.Alive(s.Owner) || !o.underWay(o.ctx, s.Owner) {
				none()
				return
			}
			look(none)
		}, func(error) { none() })
	})
}
