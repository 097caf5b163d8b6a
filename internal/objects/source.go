package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
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

// futureValue is the value in a future as the object store sees it. It does not keep the future alive.
type futureValue struct {
	o      *Objects
	future weak.Pointer[core.Future]
	plan   *codec.Plan
	size   int64
	value  atomic.Pointer[any] // a pointer to the value while the future does not give it: it is not ready yet

	mu     sync.Mutex // guards object
	object *objectstore.Object
}

// Size implements objectstore.Value.
func (f *futureValue) Size() int64 { return f.size }

// Why implements objectstore.Reason.
func (f *futureValue) Why() string {
	c := f.future.Value()
	switch {
	case c == nil, c.Work().Name() == "object": // of raysys.Put
		return "put"
	}
	return "result of " + c.Work().Name()
}

// Pieces implements objectstore.Value.
func (f *futureValue) Pieces() ([][]byte, error) {
	v, err := f.now()
	if err != nil {
		return nil, err
	}
	var refs []*core.Future
	return f.plan.Pieces(reflect.ValueOf(v).Elem(), &refs)
}

// now returns a pointer to the value.
func (f *futureValue) now() (any, error) {
	if v := f.value.Load(); v != nil {
		return *v, nil
	}
	c := f.future.Value()
	if c == nil {
		return nil, fmt.Errorf("%w: its last reference is gone", raysys.ErrReleased)
	}
	return c.Outcome()
}

// Evict implements objectstore.Value.
func (f *futureValue) Evict() bool {
	c := f.future.Value()
	if c == nil {
		return true // the future is being collected
	}
	f.mu.Lock()
	obj := f.object
	f.mu.Unlock()
	if obj == nil || f.value.Load() != nil {
		return false
	}
	if s, ok := core.SourceOf(c).(*objectSource); ok {
		return c.Evict(s) // a copy: the source that brought it brings it again
	}
	v, err := c.Outcome()
	if err != nil {
		return c.Absent()
	}
	return c.Evict(&storedSource{o: f.o, id: c.ID(), object: obj, plan: f.plan, size: f.size, refs: refsOf(f.plan, v)})
}

// refsOf lists what a value refers to, in the order of its encoding.
func refsOf(plan *codec.Plan, v any) (refs []*core.Future) {
	if !plan.HasRefs() {
		return nil
	}
	plan.Refs(reflect.ValueOf(v).Elem(), func(r core.RefValue) {
		if c := r.RefFuture(); c != nil {
			refs = append(refs, c)
		}
	})
	return refs
}

// viewObject lets a value look into an object's bytes where they are.
func viewObject(ctx context.Context, obj *objectstore.Object, into any, refs []*core.Future, done func(func(), error)) {
	m, err := obj.Map(ctx)
	if err != nil {
		done(nil, lostObject(err))
		return
	}
	if err := decodeShared(m.Bytes(), into, refs); err != nil {
		m.Close()
		done(nil, err)
		return
	}
	done(func() { m.Close() }, nil)
}

// decodeShared fills in *into, which looks into encoded where that spares a copy.
func decodeShared(encoded []byte, into any, refs []*core.Future) error {
	v := reflect.ValueOf(into).Elem()
	plan, err := codec.PlanOf(v.Type())
	if err != nil {
		return err
	}
	return plan.DecodeShared(encoded, v, refs)
}
