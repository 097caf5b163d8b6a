package generator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/tasks"
)

// Generator is a typed handle of a generator, whose items are of type T. Make it once, in a package variable; it is immutable.
type Generator[A, T any] struct {
	_ [0]*T
	d *definition
	t tasks.Task[A, struct{}]
}

// Define makes fn a generator under name, in the process-wide table. fn gives its items to yield, one after the other, and returns when yield
// returns false. A bad definition is reported by system.New.
func Define[A, T any](name string, fn func(ctx context.Context, arg A, yield func(T) bool) error) Generator[A, T] {
	d := define(core.DefaultTable, name, fn == nil, reflect.TypeFor[T]())
	return Generator[A, T]{d: d, t: task(core.DefaultTable, d, fn)}
}

// DefineIn is Define in a table of your own, for tests.
func DefineIn[A, T any](t *raysys.Table, name string, fn func(ctx context.Context, arg A, yield func(T) bool) error) Generator[A, T] {
	d := define(t, name, fn == nil, reflect.TypeFor[T]())
	return Generator[A, T]{d: d, t: task(t, d, fn)}
}

// With returns a handle whose tasks have opts beside those that g has. Detached has no meaning here: the task ends with its reader.
func (g Generator[A, T]) With(opts ...raysys.Option) Generator[A, T] {
	return Generator[A, T]{d: g.d, t: g.t.With(append(opts[:len(opts):len(opts)], attached)...)}
}

// Go begins the task, as tasks.Task.Go does, and returns its items as they come. What can be wrong is reported by the loop.
func (g Generator[A, T]) Go(ctx context.Context, arg A) *Stream[T] {
	s := begin(ctx, g.d)
	s.task = g.t.Go(s.ctx, arg)
	return &Stream[T]{s: s}
}

// Stream is the items of one task.
type Stream[T any] struct {
	_ [0]*T
	s *stream
}

// All is the items in their order. It may be called once: the loop of a second one ends with raysys.ErrBadOption. An error is the last
// element. The end of the loop ends the task.
func (s *Stream[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		at := new(T) // what an item is made in
		s.s.all(ctx, unsafe.Pointer(at), func(err error) bool {
			v := *at
			*at = none
			return yield(v, err)
		})
	}
}

// Stop ends the task. A loop that waits for an item ends with raysys.ErrCancelled.
func (s *Stream[T]) Stop() { s.s.stop() }

// task makes the task of fn.
func task[A, T any](t *raysys.Table, d *definition, fn func(context.Context, A, func(T) bool) error) tasks.Task[A, struct{}] {
	return tasks.DefineIn(t, d.name, func(ctx context.Context, arg A) (struct{}, error) {
		at := new(T) // where an item is while it is encoded
		return struct{}{}, produce(ctx, d, unsafe.Pointer(at), func(s *sender) error {
			return fn(ctx, arg, func(v T) bool {
				s.mu.Lock()
				*at = v
				return s.yield()
			})
		})
	}).With(raysys.Retries(0))
}

// attached refuses what takes a task from its reader.
func attached(o *core.Options) {
	if o.Detached {
		o.Fail(fmt.Errorf("%w: Detached: a generator ends with its reader", raysys.ErrBadOption))
	}
}

// definition is a Generator without its types.
type definition struct {
	name  string
	codec items.Codec
	kind  grains.Kind[box]
	put   grains.Func[box, put, int]
	ask   grains.Func[box, ask, answer]
}

func define(t *raysys.Table, name string, isNil bool, item reflect.Type) *definition {
	codec, err := items.CodecOf(item)
	if isNil {
		err = errors.Join(errors.New("the function is nil"), err)
	}
	if err != nil {
		t.Add("generator", name, 0, err, 2)
	}
	d := &definition{name: name, codec: codec}
	d.kind = grains.DefineIn[box](t, name+".items", grains.Placement(raysys.PreferLocal), grains.IdleAfter(idle), grains.Unfiltered())
	d.put = grains.LaterMethod(d.kind, "put", (*box).put).Idempotent().With(raysys.NoDeadline())
	d.ask = grains.LaterMethod(d.kind, "ask", (*box).ask).Idempotent().With(raysys.NoDeadline())
	return d
}
