package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// Keep implements core.Objects.
func (o *Objects) Keep(c *core.Future, v any) (kept bool, err error) {
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return false, nil // a value that cannot be encoded can neither travel nor go to disk: the program alone has it
	}
	size := plan.Size(value)
	if size <= raysys.ObjectSize {
		return false, nil
	}
	f := &futureValue{o: o, future: weak.Make(c), plan: plan, size: int64(size)}
	switch s := core.SourceOf(c).(type) {
	case nil:
	case *storedSource: // the value came back from disk
		f.object = s.object
		s.object.Revive(f)
		return true, nil
	case *objectSource:
		if copied := o.store.Lookup(s.OID); copied != nil {
			f.object = copied
			copied.Revive(f)
			return true, nil
		}
		return false, nil
	default:
		return false, nil
	}
	f.value.Store(&v)
	defer f.value.Store(nil)
	id := o.id(c)
	obj, err := o.store.Add(o.ctx, id, attemptOf(c), f)
	if errors.Is(err, objectstore.ErrPresent) {
		// The object is of an earlier attempt whose outcome was lost on the way. This attempt is the one that counts
		// (rule C22).
		if old := o.store.Lookup(id); old != nil {
			old.Release()
		}
		obj, err = o.store.Add(o.ctx, id, attemptOf(c), f)
	}
	if err != nil {
		if o.ctx.Err() != nil {
			return false, nil // the node closes, and its values end with it
		}
		return false, err
	}
	f.mu.Lock()
	f.object = obj
	f.mu.Unlock()
	o.enter(id, f.future)
	o.atEnd(c, obj)
	return true, nil
}

func attemptOf(c *core.Future) uint32 {
	if t := c.OwnTurn(); t != nil {
		return uint32(max(t.Attempt(), 1))
	}
	return 1
}

// Drop implements core.Objects.
func (o *Objects) Drop(c *core.Future) {
	switch s := core.SourceOf(c).(type) {
	case nil:
		if obj := o.store.Lookup(o.id(c)); obj != nil {
			o.freed(obj)
		}
	case *storedSource:
		o.freed(s.object)
	}
}

// enter remembers the future of an object of this node.
func (o *Objects) enter(id raysys.TaskID, c weak.Pointer[core.Future]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[raysys.TaskID]weak.Pointer[core.Future]{}
	}
	o.live[id] = c
}

// futureOf returns the future of an object of this node, nil when it was collected.
func (o *Objects) futureOf(id raysys.TaskID) *core.Future {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id].Value()
}

// freed ends this node's own need of an object: the future that held it was released.
func (o *Objects) freed(obj *objectstore.Object) {
	o.end(o.kept.unneeded(obj))
	o.dead(obj.ID())
}

// A collectable is what the cleanup of an object's future needs. It is weak: what a cleanup holds stays until the future is
// collected, and the node leads to its futures, so that a closed node would stay for ever.
type collectable struct {
	objects weak.Pointer[Objects]
	object  weak.Pointer[objectstore.Object]
	id      raysys.TaskID
}

// atEnd arranges that the object is needed no more once its future is collected.
func (o *Objects) atEnd(future *core.Future, obj *objectstore.Object) {
	runtime.AddCleanup(future, collectable.collected, collectable{weak.Make(o), weak.Make(obj), obj.ID()})
}

// collected is called by the collector's goroutine when nothing here refers to the future of an object any more.
func (e collectable) collected() {
	o := e.objects.Value()
	if o == nil {
		return
	}
	if obj := e.object.Value(); obj != nil { // else the store has it no more, and nothing keeps it
		o.endCollected(o.kept.unneeded(obj))
	}
	o.dead(e.id)
}

// dead forgets the future of an object.
func (o *Objects) dead(id raysys.TaskID) {
	o.mu.Lock()
	if o.live[id].Value() == nil { // else the object has the future of another attempt now
		delete(o.live, id)
	}
	o.mu.Unlock()
}

// ensure puts the value of c into the store if it is not there, so that other nodes can pull it, and returns its id. It
// may wait for room.
func (o *Objects) ensure(c *core.Future) (raysys.TaskID, error) {
	id := o.id(c)
	for {
		if obj := o.store.Lookup(id); obj != nil && obj.Lost() == nil {
			return id, nil
		}
		v, err := c.Outcome()
		if err != nil {
			return id, err
		}
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return id, err
		}
		// A copy of the head: what Outcome returned may lie in the future, which must not be kept.
		head := reflect.New(value.Type())
		head.Elem().Set(value)
		v = head.Interface()
		f := &futureValue{o: o, future: weak.Make(c), plan: plan, size: int64(plan.Size(value))}
		f.value.Store(&v) // while it is set Evict refuses: the value counts against the budget and stays
		obj, err := o.store.Add(o.ctx, id, attemptOf(c), f)
		switch {
		case err == nil:
			o.enter(id, f.future)
			o.atEnd(c, obj)
			return id, nil
		case !errors.Is(err, objectstore.ErrPresent):
			return id, fmt.Errorf("keep an object to send: %w", err)
		}
	}
}

// evicted says what to do after ensure found the value elsewhere. It returns nil when ensure shall be tried again: most
// likely the value went to disk in that moment, and is in the store now. It returns an error when the store has lost the
// value, or ctx has ended.
func evicted(ctx context.Context, e *core.Elsewhere) error {
	if s, ok := e.Source.(*storedSource); ok {
		if err := s.object.Lost(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
