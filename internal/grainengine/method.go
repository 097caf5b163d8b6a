package grainengine

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// Func is the handle of a method: what grains.Func and its siblings are made of. They know the types of the method and give them to
// functions of this package. Where the method has no argument or no result, none stands for it.
type Func struct{ m *method }

type none = struct{}

// Method is grains.Method.
func Method[G, A, R any](k Kind, name string, fn func(*G, context.Context, A) (R, error)) Func {
	return defineMethod(k, name, fn == nil, false, fn)
}

// Method0 is grains.Method0.
func Method0[G, R any](k Kind, name string, fn func(*G, context.Context) (R, error)) Func {
	return defineMethod(k, name, fn == nil, false, func(g *G, ctx context.Context, _ none) (R, error) { return fn(g, ctx) })
}

// Action is grains.Action.
func Action[G, A any](k Kind, name string, fn func(*G, context.Context, A) error) Func {
	return defineMethod(k, name, fn == nil, false, func(g *G, ctx context.Context, a A) (none, error) { return none{}, fn(g, ctx, a) })
}

// Action0 is grains.Action0.
func Action0[G any](k Kind, name string, fn func(*G, context.Context) error) Func {
	return defineMethod(k, name, fn == nil, false, func(g *G, ctx context.Context, _ none) (none, error) { return none{}, fn(g, ctx) })
}

func (f Func) but(change func(*method)) Func {
	m := *f.m
	change(&m)
	m.bad = m.usable()
	return Func{&m}
}

// EntryOf returns the line of the function table that the method is; nil for the zero Func.
func EntryOf(f Func) *core.Entry {
	if f.m == nil {
		return nil
	}
	return f.m.entry
}

// With is the With of the handles, ReadOnly, Idempotent and Reentrant are theirs too.
func (f Func) With(opts []raysys.Option) Func {
	return f.but(func(m *method) { m.opts = core.With(m.opts, opts) })
}

// ReadOnly is that of the handles.
func (f Func) ReadOnly() Func { return f.but(func(m *method) { m.readOnly = true }) }

// Idempotent is that of the handles.
func (f Func) Idempotent() Func { return f.but(func(m *method) { m.idempotent = true }) }

// Reentrant is that of the handles.
func (f Func) Reentrant() Func { return f.but(func(m *method) { m.reentrant = true }) }

// Call is the Call of the handles, which are its only callers: a report about the argument names the line that calls those.
func Call[A any](ctx context.Context, f Func, id graindir.ID, arg A) core.Link {
	var s submission
	if failed := f.m.begin(ctx, id, &s); failed != nil {
		return core.LinkTo(failed)
	}
	*(*A)(s.arg) = arg
	return f.m.submit(&s)
}

// Tell is the Tell of the handles.
func Tell[A any](ctx context.Context, f Func, id graindir.ID, arg A) error {
	if a := keeping(ctx); a != nil {
		kept := arg
		if is, err := f.m.tellLater(ctx, a, id, unsafe.Pointer(&kept)); is {
			return err
		}
	}
	var s submission
	if failed := f.m.begin(ctx, id, &s); failed != nil {
		return failed.Failure()
	}
	*(*A)(s.arg) = arg
	return f.m.told(f.m.submit(&s))
}

// told is nil for a call that was queued; it may even have failed since.
func (m *method) told(l core.Link) error {
	if core.IDOf(l).IsZero() {
		return core.FutureOf(l).Failure()
	}
	return nil
}

// Pack returns a call of a grain by f with the argument at arg. The error says why it cannot be made later, by another node.
func Pack(f Func, id graindir.ID, arg unsafe.Pointer) (p core.Packed, err error) {
	m := f.m
	switch {
	case m == nil:
		return p, fmt.Errorf("%w: the handle of the method is the zero value", raysys.ErrBadDefinition)
	case m.bad != nil:
		return p, fmt.Errorf("call %s: %w", m.entry.Name, m.bad)
	case id.Kind != m.kind.name:
		return p, fmt.Errorf("call %s: %w: the grain is %q, of another kind or the zero Grain: use Kind.Get", m.entry.Name, raysys.ErrInvalidRef, shown(id.String()))
	case len(id.Key) > MaxKey:
		return p, fmt.Errorf("call %s: %w: the grain's key has %d bytes, %d are allowed", m.entry.Name, raysys.ErrTooLarge, len(id.Key), MaxKey)
	case m.arg.HasRefs():
		return p, fmt.Errorf("call %s: %w: its argument, %s, may hold references, which end with their owner: give the values", m.entry.Name, raysys.ErrBadOption, m.argType.Type)
	}
	p = core.Packed{Function: m.entry.Name, Opts: m.opts, ReadOnly: m.readOnly, Again: m.idempotent, Comes: m.reentrant, Keyed: m.transacts()}
	p.Arg, err = m.arg.AppendAt(nil, arg, nil)
	return p, err
}

// CallPacked makes the call.
func CallPacked(ctx context.Context, p *core.Packed, id graindir.ID) core.Link {
	none := core.TypeOf[none]()
	e := Of(ctx)
	if e == nil {
		return core.LinkTo(core.FailedOf(none, raysys.ErrNoRuntime))
	}
	entry := e.cfg.Table.Lookup("method", p.Function)
	if entry == nil {
		return core.LinkTo(core.FailedOf(none, fmt.Errorf("%w: method %s is not in this program", raysys.ErrUnknownFunc, p.Function)))
	}
	m := *entry.Impl.(*methodVariants)[0]
	m.opts, m.readOnly, m.idempotent, m.reentrant = p.Opts, p.ReadOnly, p.Again, p.Comes || m.kind.Reentrant
	m.bad = m.usable()
	var s submission
	if failed := m.begin(ctx, id, &s); failed != nil {
		return core.LinkTo(failed)
	}
	if err := m.arg.DecodeAt(p.Arg, s.arg, nil); err != nil {
		return core.LinkTo(m.failed(fmt.Errorf("call %s: argument: %w", p.Function, err)))
	}
	return m.submit(&s)
}
