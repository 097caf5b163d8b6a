package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// futureValue is the value in a future as the object store sees it. It does not keep the future alive.
type futureValue struct {
	o     *Objects
	c     weak.Pointer[core.Future]
	plan  *codec.Plan
	size  int64
	value atomic.Pointer[any] // a pointer to the value while the future does not give it: it is not ready yet

	mu     sync.Mutex // guards object
	object *objectstore.Object
}

// Size implements objectstore.Value.
func (h *futureValue) Size() int64 { return h.size }

// Why implements objectstore.Reason.
func (h *futureValue) Why() string {
	c := h.c.Value()
	switch {
	case c == nil, c.Work().Name() == "object": // of raysys.Put
		return "put"
	}
	return "result of " + c.Work().Name()
}

// Pieces implements objectstore.Value.
func (h *futureValue) Pieces() ([][]byte, error) {
	v, err := h.now()
	if err != nil {
		return nil, err
	}
	var refs []*core.Future
	return h.plan.Pieces(reflect.ValueOf(v).Elem(), &refs)
}

// now returns a pointer to the value.
func (h *futureValue) now() (any, error) {
	if v := h.value.Load(); v != nil {
		return *v, nil
	}
	c := h.c.Value()
	if c == nil {
		return nil, fmt.Errorf("%w: nobody holds it any more", raysys.ErrReleased)
	}
	return c.Outcome()
}

// Evict implements objectstore.Value.
func (h *futureValue) Evict() bool {
	c := h.c.Value()
	if c == nil {
		return true // it is being collected
	}
	h.mu.Lock()
	obj := h.object
	h.mu.Unlock()
	if obj == nil || h.value.Load() != nil {
		return false
	}
	if s, ok := core.SourceOf(c).(*objectSource); ok {
		return c.Evict(s) // a copy: it comes again from where it came
	}
	v, err := c.Outcome()
	if err != nil {
		return c.Absent()
	}
	return c.Evict(&storedSource{o: h.o, id: c.ID(), object: obj, plan: h.plan, size: h.size, refs: refsOf(h.plan, v)})
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

// Fetch implements core.Source.
func (s *storedSource) Fetch(into any, done func(error)) {
	go func() {
		// The store's own end ends it.
		b, err := s.object.Bytes(context.Background())
		if err == nil {
			err = decodeShared(b, into, s.refs)
		}
		done(s.elsewhere(lostObject(err)))
	}()
}

// elsewhere turns the loss of this node's bytes, such as a damaged file, into where a copy is, if there is any.
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

// lostObject tells what the end of a store means to who wanted an object of it.
func lostObject(err error) error {
	if errors.Is(err, raysys.ErrReleased) {
		return fmt.Errorf("%w: %w", raysys.ErrObjectLost, err)
	}
	return err
}
