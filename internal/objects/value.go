package objects

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

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
