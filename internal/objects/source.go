package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// objectSource is a value that is ready, too large to have come along, and at the node that at names, and perhaps at
// others.
type objectSource struct {
	refs.Description
	at *refs.RemoteSource
	o  *Objects
}

// Describe says which object c is. One whose value is here is in the store when it returns.
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
				return refs.Description{s.object.ID(), o.self(), s.size, s.refs}, nil
			case *objectSource:
				return s.Description, nil
			case *refs.RemoteSource: // a result that nobody here has looked at
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
		return refs.Description{oid, o.self(), int64(plan.Size(value)), refsOf(plan, v)}, err
	}
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

func (s *objectSource) Name() string      { return s.at.Name() }
func (s *objectSource) ID() raysys.TaskID { return s.at.ID() }
func (s *objectSource) Cancelled()        {}

// Remote implements refs.StandsFor.
func (s *objectSource) Remote() *refs.RemoteSource { return s.at }

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

// whereabouts says whom to ask for an object: its owner, its lenders, and whoever the directory names.
type whereabouts struct {
	o       *Objects
	oid     raysys.TaskID
	owner   core.NodeKey
	lenders func() []core.NodeKey
	asked   map[core.NodeKey]bool
	found   bool           // the directory was asked
	last    bool           // and once more, when nobody else was left
	list    []core.NodeKey // who is to be asked yet
}

// again reports whether another round may find what the one before did not. A transfer from an owner that lives asks the
// directory when it begins; copies that were made since then, or were about to be entered, serve when that owner dies.
func (w *whereabouts) again() bool {
	if w.last || w.o.mesh.Alive(w.owner) {
		return false
	}
	w.last, w.found, w.asked = true, false, nil // those who were not reached before count again
	return true
}

// Next implements transfer.Sources.
func (w *whereabouts) Next(ctx context.Context) (core.NodeKey, error) {
	if w.asked == nil {
		w.asked, w.list = map[core.NodeKey]bool{w.o.self(): true, w.owner: true}, w.lenders()
		if w.o.mesh.Alive(w.owner) {
			return w.owner, nil
		}
	}
	for {
		for len(w.list) > 0 {
			k := w.list[0]
			w.list = w.list[1:]
			if !w.asked[k] && w.o.mesh.Alive(k) {
				w.asked[k] = true
				return k, nil
			}
		}
		if !w.found {
			w.found = true
			a, err := w.o.dir.FindWait(ctx, registry.ObjectKey(w.oid))
			if err != nil {
				return core.NodeKey{}, unknownCopies(err)
			}
			for _, l := range a.Record.At {
				w.list = append(w.list, l.Node)
			}
			continue
		}
		if !w.last || w.o.mesh.Alive(w.owner) || !w.o.underWay(ctx, w.owner) {
			break
		}
		w.found = false
	}
	if !w.o.mesh.Alive(w.owner) {
		return core.NodeKey{}, fmt.Errorf("%w: its owner %s is dead, and no other node is known to have it", raysys.ErrObjectLost, w.owner)
	}
	return core.NodeKey{}, errors.New("no other node is known to have it") // what its owner said decides
}

// unknownCopies: nobody can say where copies of an object are, so that it cannot be called lost.
func unknownCopies(err error) error {
	return fmt.Errorf("%w: look for copies of it: %w", raysys.ErrUnreachable, err)
}

// settling is how long after the death of a node the directory may lack copies of its objects that others have: what they
// had to say was gathered, or waited for a new leader of the shard because the old one was that node too.
const settling = 4 * registry.ResendPause

// underWay waits until whoever had a copy of the dead node's objects has said so. It returns false at once when that is so
// already.
func (o *Objects) underWay(ctx context.Context, dead core.NodeKey) bool {
	now := time.Now()
	o.mu.Lock()
	at, known := o.deaths[dead]
	if !known {
		for k, t := range o.deaths {
			if now.Sub(t) > time.Minute && len(o.deaths) > 100 {
				delete(o.deaths, k)
			}
		}
		if o.deaths == nil {
			o.deaths = map[core.NodeKey]time.Time{}
		}
		at = now
		o.deaths[dead] = at
	}
	o.mu.Unlock()
	left := settling - now.Sub(at)
	if left <= 0 {
		return false
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// addToDirectory enters a copy in the directory, so that others find it when the owner is gone or busy.
func (o *Objects) addToDirectory(obj *objectstore.Object, owner core.NodeKey) {
	m, err := obj.Manifest(o.ctx)
	if err != nil {
		return
	}
	o.markListed(m.ID)
	o.dir.Update(registry.AddCopy(registry.Record{ID: m.ID, Owner: owner, Size: m.Size, Attempt: m.Attempt, Sum: m.Sum}, false))
}

// removeFromDirectory takes a copy out of the directory.
func (o *Objects) removeFromDirectory(oid raysys.TaskID) {
	if o.dir != nil && o.ctx.Err() == nil {
		o.dir.Update(registry.RemoveCopy(oid))
	}
}

// FindCopies ends a wait for an owner that cannot be asked: with where copies of its object are, if it was one and there are any,
// else with end. While the directory does not answer, nothing is lost.
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
				done(end) // which says more
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
