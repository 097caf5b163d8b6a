package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
)

// streamer gives the items of a stream: of a feed by the key of its grain, of a generator by its argument.
type streamer func(ctx context.Context, key string, last int, arg unsafe.Pointer) iter.Seq2[any, error]

// name is how a path names a function: "grain", "task" or "feed", the kind of the grain, and the method or the task.
type name struct{ form, kind, function string }

// mark is a function that may be called.
type mark struct {
	name
	Work
	text     string
	path     string // of requests, but for a key or a run
	arg, res *core.ValueType
	argument *jsonschema.Schema
	result   *jsonschema.Schema // of an item of a stream
	item     reflect.Type       // of a stream; else nil
	packed   core.Packed        // a call, but for the argument
	pack     func(key string, arg unsafe.Pointer) (core.Packed, error)
	items    streamer // nil for what gives a result
}

// Method marks a method of a grain. text says to callers what it does.
func Method[G, A, R any](f grains.Func[G, A, R], text string) Option {
	return method(*(*grainengine.Func)(core.HandleIn(&f)), text, nil, nil)
}

// Method0 marks a method without argument.
func Method0[G, R any](f grains.Func0[G, R], text string) Option {
	return method(*(*grainengine.Func)(core.HandleIn(&f)), text, nil, nil)
}

// Task marks a task. text says to callers what it does.
func Task[A, R any](t tasks.Task[A, R], text string) Option {
	return task(*(*taskengine.Task)(core.HandleIn(&t)), text, nil, nil)
}

// Task0 marks a task without argument.
func Task0[R any](t tasks.Task0[R], text string) Option {
	return task(*(*taskengine.Task)(core.HandleIn(&t)), text, nil, nil)
}

// Watch marks a feed. text says to callers what its items are.
func Watch[G, T any](w feed.Watch[G, T], text string) Option {
	f := *(*grainengine.Func)(core.HandleIn(&w))
	all := func(ctx context.Context, key string, last int, _ unsafe.Pointer) iter.Seq2[any, error] {
		var g grains.Grain[G]
		*(*grains.ID)(core.HandleIn(&g)) = grains.ID{Kind: grainengine.KindOf(f), Key: key}
		return anyItems(w.All(ctx, g, feed.Last(last)))
	}
	return method(f, text, reflect.TypeFor[T](), all)
}

// Generator marks a generator. text says to callers what it does.
func Generator[A, T any](g generator.Generator[A, T], text string) Option {
	all := func(ctx context.Context, _ string, _ int, arg unsafe.Pointer) iter.Seq2[any, error] {
		return anyItems(g.Go(ctx, *(*A)(arg)).All(ctx))
	}
	return task(*(*taskengine.Task)(core.HandleIn(&g)), text, reflect.TypeFor[T](), all)
}

// method marks a method of a grain; with an item, and what streams such ones, it is that of a feed.
func method(f grainengine.Func, text string, item reflect.Type, items streamer) Option {
	return func(d *Door) error {
		e := grainengine.EntryOf(f)
		if e == nil {
			return errors.New("Method or Watch: the handle is the zero value")
		}
		kind := grainengine.KindOf(f)
		m := &mark{name: name{"grain", kind, e.Name[len(kind)+1:]}, text: text, item: item, items: items}
		m.Work = Work{Function: e.Name, Kind: kind, ReadOnly: items != nil}
		if items != nil {
			m.form, m.arg, m.res = "feed", core.TypeOf[struct{}](), core.TypeOf[struct{}]()
			return m.addTo(d)
		}
		m.arg, m.res = grainengine.TypesOf(f)
		m.pack = func(key string, arg unsafe.Pointer) (core.Packed, error) {
			return grainengine.Pack(f, graindir.ID{Kind: kind, Key: key}, arg)
		}
		return m.addTo(d)
	}
}

// task marks a task; with an item, and what streams such ones, it is the task of a generator.
func task(k taskengine.Task, text string, item reflect.Type, items streamer) Option {
	return func(d *Door) error {
		e := taskengine.EntryOf(k)
		if e == nil {
			return errors.New("Task or Generator: the handle is the zero value")
		}
		m := &mark{name: name{form: "task", function: e.Name}, text: text, item: item, items: items}
		m.Work = Work{Function: e.Name}
		m.arg, m.res = taskengine.TypesOf(k)
		m.pack = func(_ string, arg unsafe.Pointer) (core.Packed, error) { return taskengine.Pack(k, arg) }
		return m.addTo(d)
	}
}

// addTo adds the mark to a door, or says why that cannot be.
func (m *mark) addTo(d *Door) (err error) {
	what := m.form + " " + m.Function
	switch {
	case d.marks[m.name] != nil:
		return fmt.Errorf("%s is marked twice", what)
	case m.pack != nil:
		m.packed, err = m.pack("", reflect.New(m.arg.Type).UnsafePointer())
		m.ReadOnly = m.packed.ReadOnly
	}
	if err != nil && !errors.Is(err, raysys.ErrEncode) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if m.packed.Opts.Name != "" {
		return fmt.Errorf("%s: its handle is Detached(%.100q): give one without a name", what, m.packed.Opts.Name)
	}
	for _, t := range []reflect.Type{m.arg.Type, m.res.Type} {
		switch plan, err := codec.PlanOf(t); {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case plan.HasRefs():
			return fmt.Errorf("%s: %s may hold references, which JSON cannot: give the values", what, t)
		}
	}
	if dots := []string{".", ".."}; slices.Contains(dots, m.kind) || slices.Contains(dots, m.function) {
		return fmt.Errorf("%s: no path of a request has . or .. as a name", what)
	}
	m.path = path.Join("/call", m.form, url.PathEscape(m.kind), url.PathEscape(m.function))
	m.argument, m.result = schemaOf(m.arg.Type, false), schemaOf(cmp.Or(m.item, m.res.Type), true)
	d.marks[m.name], d.order = m, append(d.order, m)
	return nil
}

// found returns the mark that a path below /call/ names, and what follows its name: "/" and a key or a run, still
// escaped. No name is empty, and what cannot be unescaped is.
func (d *Door) found(path string) (m *mark, rest string) {
	parts := strings.SplitN(path, "/", 4)
	if parts[0] == "task" {
		parts = slices.Insert(strings.SplitN(path, "/", 3), 1, "")
	}
	if len(parts) < 3 {
		return nil, ""
	}
	n := name{form: parts[0]}
	n.kind, _ = url.PathUnescape(parts[1])
	n.function, _ = url.PathUnescape(parts[2])
	if len(parts) > 3 {
		rest = "/" + parts[3]
	}
	return d.marks[n], rest
}
