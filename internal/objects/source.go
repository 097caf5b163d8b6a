package objects

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
)

// Where the sources of this package find their values: what placement goes by.
var (
	_ core.Located = (*storedSource)(nil)
	_ core.Located = (*objectSource)(nil)
)

// objectSource is a value that is ready, too large to have come along, and at the node that at names, and perhaps at
// others.
type objectSource struct {
	refs.Description
	at *refs.RemoteSource
	o  *Objects
}

// NewSource notes that this node needs the object, until nobody here reaches what is returned.
func (o *Objects) NewSource(at *refs.RemoteSource, d refs.Description) core.Source {
	s := &objectSource{Description: d, at: at, o: o}
	o.kept.mu.Lock() // so that what keeps it here ends either before, or not with its last name
	if k := o.kept.byID[d.OID]; k != nil {
		k.unreferenced = false
	}
	o.mu.Lock()
	o.needs[d.OID] = need{o.needs[d.OID].count + 1, d.Owner, max(d.Size, o.needs[d.OID].size)}
	o.mu.Unlock()
	o.kept.mu.Unlock()
	runtime.AddCleanup(s, o.unneeded, d.OID)
	return s
}

// unneeded lets a copy go that no reference here stands for any more.
func (o *Objects) unneeded(oid raysys.TaskID) {
	var k *reasons
	o.kept.mu.Lock() // before the count: who keeps the copy looks at it
	if o.oneLess(oid) {
		if obj := o.store.Lookup(oid); obj != nil {
			k = o.kept.unneededLocked(obj)
		}
	}
	o.kept.mu.Unlock()
	o.endCollected(k)
}

// oneLess reports whether that was the last reference.
func (o *Objects) oneLess(oid raysys.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.needs[oid]
	if n.count--; n.count > 0 {
		o.needs[oid] = n
		return false
	}
	delete(o.needs, oid)
	return true
}

// needed says how many references here stand for an object of another node.
func (o *Objects) needed(oid raysys.TaskID) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.needs[oid].count
}

func (s *objectSource) Name() string      { return s.at.Name() }
func (s *objectSource) ID() raysys.TaskID { return s.at.ID() }
func (s *objectSource) Cancelled()        {}

// Remote implements refs.StandsFor.
func (s *objectSource) Remote() *refs.RemoteSource { return s.at }

// Where implements core.Located. The owner may have lost it, or others may have it too; whoever fetches finds out.
func (s *objectSource) Where() (core.NodeKey, int64) {
	return s.Owner, s.Size
}

// Fetch implements core.Source.
func (s *objectSource) Fetch(into any, done func(error)) {
	s.o.runner.Background(func() {
		obj, err := s.fetch(s.o.ctx, objectstore.Heap)
		if err == nil {
			defer obj.Unpin()
			var b []byte
			if b, err = obj.Bytes(s.o.ctx); err == nil {
				err = decodeShared(b, into, s.Refs)
			}
		}
		done(lostObject(err))
	}, func(err error) { done(err) })
}

// View implements core.Viewer.
func (s *objectSource) View(into any, done func(func(), error)) {
	s.o.runner.Background(func() {
		obj, err := s.fetch(s.o.ctx, objectstore.Segment)
		if err != nil {
			done(nil, err)
			return
		}
		defer obj.Unpin()
		viewObject(s.o.ctx, obj, into, s.Refs, done)
	}, func(err error) { done(nil, err) })
}

// fetch pulls the object if it is not here, and pins it.
func (s *objectSource) fetch(ctx context.Context, form objectstore.Form) (*objectstore.Object, error) {
	o := s.o
	had := o.store.Lookup(s.OID) != nil
	w := &whereabouts{o: o, oid: s.OID, owner: s.Owner, lenders: s.at.Lenders}
	start := time.Now()
	for {
		obj, err := o.engine.Fetch(ctx, objectstore.Version{ID: s.OID}, w, form)
		switch {
		case err == nil:
			if !had {
				o.fetched(obj.Info().Size, time.Since(start))
				o.addToDirectory(obj, s.Owner)
			}
			return obj, nil
		case !errors.Is(err, raysys.ErrObjectLost) && !errors.Is(err, raysys.ErrUnreachable) || !w.again():
			return nil, fmt.Errorf("%s: %w", s.Name(), err)
		}
	}
}
