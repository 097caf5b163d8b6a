package objects

import (
	"context"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// Explain adds to e what this node knows of the object that the value of c is, and which nodes the directory names. It says of an object
// whose owner is dead whether another node is known to have it.
func (o *Objects) Explain(ctx context.Context, c *core.Future, e *core.Explanation) {
	var oid raysys.TaskID
	owner, at := o.self(), core.Behind(c)
	switch s := core.SourceOf(at).(type) {
	case *objectSource:
		oid, owner, e.Size = s.OID, s.Owner, max(e.Size, s.Size)
	case *storedSource:
		oid = s.object.ID()
		if err := s.Lost(); err != nil && e.Error == "" {
			e.State, e.Error = "lost", err.Error()
		}
	case *refs.RemoteSource: // the owner's future may have an object
		oid, owner = objectID(s.ID(), s.Owner), s.Owner
	case nil:
		if !at.Object() {
			return
		}
		oid = o.id(at)
	default:
		return
	}
	e.Owner = owner.Node
	if o.dir == nil {
		return
	}
	a, err := o.dir.FindWait(ctx, registry.ObjectKey(oid)) // without an answer the rest is known all the same
	for _, l := range a.Record.At {
		if n := l.Node.Node; n != e.Owner && o.mesh.Alive(l.Node) && !slices.Contains(e.Copies, n) {
			e.Copies = append(e.Copies, n)
		}
	}
	switch dead := fmt.Sprintf("its owner %s is dead", owner.Node); {
	case o.mesh.Alive(owner) || e.Copies != nil || e.Error != "":
	case err != nil:
		e.Error = dead + ", and which nodes have copies is not known: the directory does not answer"
	default:
		e.Error = dead + ", and no other node is known to have it"
	}
}

// ExplainNamed says what the record of a name knows of its object: which nodes have it, or that it is lost and why.
func ExplainNamed(o *Objects, rec *registry.Record) core.Explanation {
	e := core.Explanation{ID: rec.ID.String(), Name: "object", State: "ready", Size: rec.Size, Owner: rec.Owner.Node}
	for _, l := range o.files.withFiles(rec) {
		if n := l.Node.Node; l.Node != rec.Owner && o.mesh.Alive(l.Node) && !slices.Contains(e.Copies, n) {
			e.Copies = append(e.Copies, n)
		}
	}
	switch away := o.files.allAway(rec.Files); {
	case o.mesh.Alive(rec.Owner), e.Copies != nil:
	case away != nil:
		e.Error = fmt.Sprintf("its owner %s is gone: %v", rec.Owner, away)
	default:
		e.State, e.Error = "lost", fmt.Sprintf("its owner %s is gone, and of %d copies none is left: put it again, or Forget the name", rec.Owner, max(rec.Replicas, 1))
	}
	return e
}

// ExplainAll explains the objects of this node, of the ids for which wanted is true.
func (o *Objects) ExplainAll(ctx context.Context, wanted func(id raysys.TaskID) bool, limit int) (list []core.Explanation) {
	o.mu.Lock()
	var found []*core.Future
	for oid, w := range o.live {
		if c := w.Value(); c != nil && (wanted(oid) || wanted(c.ID())) && len(found) < limit {
			found = append(found, c)
		}
	}
	o.mu.Unlock()
	for _, c := range found {
		e := core.Explain(c, core.ExplainDepth)
		o.Explain(ctx, c, &e)
		list = append(list, e)
	}
	return list
}
