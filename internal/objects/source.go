package objects

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
)

// What core looks for beyond Source and in Job.Objects: both sources tell placement where the value is, and show it in
// place.
var (
	_ core.Located    = (*storedSource)(nil)
	_ core.Located    = (*objectSource)(nil)
	_ core.Viewer     = (*storedSource)(nil)
	_ core.Viewer     = (*objectSource)(nil)
	_ core.SentViewer = (*objectSource)(nil)
	_ core.Remaker    = (*storedSource)(nil)
	_ core.Remaker    = (*objectSource)(nil)
	_ core.Objects    = (*Objects)(nil)
	_ core.Names      = (*Objects)(nil)
)

// objectSource brings the value of another node's object, which was too large to be sent with the outcome. The owner of
// the future that at names has the bytes, and other nodes may have them too.
type objectSource struct {
	refs.Description
	at    *refs.RemoteSource
	o     *Objects
	files []raysys.NodeID // that have it in a file, where a record of its name said so
}

// NewSource returns a source of the object, and counts as a need of this node for it until the source is collected.
func (o *Objects) NewSource(at *refs.RemoteSource, d refs.Description) core.Source {
	return o.newSource(at, d)
}

func (o *Objects) newSource(at *refs.RemoteSource, d refs.Description) *objectSource {
	s := &objectSource{Description: d, at: at, o: o}
	o.need(d.OID, d.Owner, d.Size)
	objects := weak.Make(o) // as in collectable
	runtime.AddCleanup(s, func(oid raysys.TaskID) {
		if o := objects.Value(); o != nil {
			o.unneeded(oid)
		}
	}, d.OID)
	return s
}

// need counts a need of this node for an object of another, until unneeded.
func (o *Objects) need(oid raysys.TaskID, owner core.NodeKey, size int64) {
	o.kept.mu.Lock() // keptObjects.drop ends the object before this need, or sees it
	defer o.kept.mu.Unlock()
	if k := o.kept.byID[oid]; k != nil {
		k.unreferenced = false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needs[oid] = need{o.needs[oid].count + 1, owner, max(size, o.needs[oid].size)}
}

// unneeded ends a need: the collector calls it when a source is gone. With the last one the copy goes, unless it is kept.
func (o *Objects) unneeded(oid raysys.TaskID) {
	var k *reasons
	o.kept.mu.Lock() // before the count: keepCopy reads the count under this lock
	if o.oneLess(oid) {
		if obj := o.store.Lookup(oid); obj != nil {
			k = o.kept.unneededLocked(obj)
		}
	}
	o.kept.mu.Unlock()
	o.endCollected(k)
}

// oneLess ends one need of an object, and reports whether it was the last.
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

// Refers implements core.Referring.
func (s *objectSource) Refers() []*core.Future { return s.Refs }

// Remake implements core.Remaker: the submitter has the value made again.
func (s *objectSource) Remake(_ *core.Future, lost error, done func(core.Source, error)) {
	s.at.Recover(s.Owner, lost, done)
}

// Remote names the future of the owner; refs.RemoteOf asks for it.
func (s *objectSource) Remote() *refs.RemoteSource { return s.at }

// Where implements core.Located. The owner may have lost the object, or other nodes may have it too: a fetch finds out.
func (s *objectSource) Where() (core.NodeKey, int64) {
	return s.Owner, s.Size
}

// Fetch implements core.Source.
func (s *objectSource) Fetch(into any, done func(error)) {
	s.o.runner.Background(func() {
		done(lostObject(s.read(objectstore.Heap, func(obj *objectstore.Object) error {
			b, err := obj.Bytes(s.o.ctx)
			if err != nil {
				return err
			}
			return decodeShared(b, into, s.Refs)
		})))
	}, func(err error) { done(err) })
}

// View implements core.Viewer.
func (s *objectSource) View(into any, done func(func(), error)) {
	s.view(objectstore.Segment, into, func(obj *objectstore.Object, end func(), err error) { done(end, err) })
}

// ViewSent implements core.SentViewer: the copy goes with the View.
func (s *objectSource) ViewSent(into any, done func(func(), error)) {
	s.view(objectstore.Sent, into, func(obj *objectstore.Object, end func(), err error) {
		done(func() { end(); obj.Drop() }, err)
	})
}

func (s *objectSource) view(form objectstore.Form, into any, done func(*objectstore.Object, func(), error)) {
	s.o.runner.Background(func() {
		var end func()
		var at *objectstore.Object
		err := s.read(form, func(obj *objectstore.Object) (err error) {
			viewObject(s.o.ctx, obj, into, s.Refs, func(e func(), bad error) { at, end, err = obj, e, bad })
			return err
		})
		done(at, end, err)
	}, func(err error) { done(nil, nil, err) })
}

// read fetches the object, and again when the file that this node had of it turns out to be damaged.
func (s *objectSource) read(form objectstore.Form, use func(*objectstore.Object) error) error {
	for again := true; ; again = false {
		obj, err := s.fetch(s.o.ctx, form)
		if err != nil {
			return err
		}
		err = use(obj)
		lost := obj.Lost() != nil
		obj.Unpin()
		if errors.Is(err, codec.ErrNoReference) && len(s.Refs) == 0 {
			// The directory told of a copy, and the owner, which is dead, was never asked for more than the bytes.
			return fmt.Errorf("%w: of %s there is a copy, which is of no use: %w", raysys.ErrObjectLost, s.Name(), err)
		}
		if err == nil || !lost || !again {
			return err
		}
	}
}

// fetch pulls the object if it is not here, and pins it.
func (s *objectSource) fetch(ctx context.Context, form objectstore.Form) (*objectstore.Object, error) {
	o := s.o
	had := o.store.Lookup(s.OID) != nil
	w := &whereabouts{o: o, oid: s.OID, owner: s.Owner, lenders: s.at.Lenders, files: s.files}
	start := time.Now()
	for {
		obj, err := o.engine.Fetch(ctx, objectstore.Version{ID: s.OID}, w, form)
		switch {
		case err == nil:
			if !had {
				o.onFetched(obj.Info().Size, time.Since(start))
				o.addToDirectory(obj, s.Owner)
			}
			return obj, nil
		case errors.Is(err, objectstore.ErrPresent) && ctx.Err() == nil: // this node has adopted its own file meanwhile
		case !errors.Is(err, raysys.ErrObjectLost) && !errors.Is(err, raysys.ErrUnreachable) || !w.again():
			return nil, fmt.Errorf("%s: %w", s.Name(), err)
		}
	}
}
