package grainengine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/outbox"
	"github.com/raysys/raysys/internal/tally"
)

// Kind is the handle of a grain kind: what grains.Kind is made of.
type Kind struct{ k *kind }

// KindOptions are how a kind differs from the default; grains.Option changes them.
type KindOptions struct {
	Idle      time.Duration // after which an activation goes
	Mailbox   int           // bounds the calls that wait for one activation
	Stateless bool
	Workers   int // of a stateless kind; 0 for one per CPU of the node
	Reentrant bool
	OnPanic   PanicChoice
	Strategy  raysys.Strategy   // "" for the default
	Labels    map[string]string // a node must have them all
	Needs     core.Resources    // of each activation
	Need      ledger.Need       // the same, in integers
	Waits     bool              // for a node that has what no node has yet
	Keep      bool              // idle activations stay
	Movable   bool              // activations may move to another node, as those of Durable kinds
	Always    bool              // the cluster wakes a grain whose activation has ended by itself
	Durable   bool
	Replies   time.Duration // for how long a durable kind keeps the replies to calls of tasks and grains
	Filters   []raysys.Filter
	// Unfiltered kinds pass those filters alone, and none of the node.
	Unfiltered bool
}

// Option is grains.Option: it changes a kind. The error says what is wrong with it.
type Option func(*KindOptions) error

// PanicChoice is grains.PanicChoice, with the same values.
type PanicChoice uint8

// The choices, in the order of package grains.
const (
	KeepOnPanic PanicChoice = iota
	DeactivateOnPanic
	RestartOnPanic
)

// kind is what all handles of a kind share. But for its cache it is immutable once its methods are defined.
type kind struct {
	KindOptions
	storedFields
	entry *core.Entry
	name  string
	make  func() any
	tick  *method                   // of its timers
	wake  Func                      // does nothing, and so activates; of a kind that stands, is always on, or durable
	later bool                      // one of its methods may keep calls
	bound atomic.Pointer[boundKind] // a cache for bind
}

// activator is grains.Activator, deactivator grains.Deactivator: a G may implement them.
type (
	activator   interface{ OnActivate(context.Context) error }
	deactivator interface{ OnDeactivate(context.Context) error }
)

// programsCaller is how many frames above a function that is called by the exported ones of this package the program
// stands: that one, and the one of package grains, lie between.
const programsCaller = 3

// Define is grains.DefineIn. It and its siblings are called by package grains alone, in one line: reports of a bad
// definition name the line that calls grains.
func Define[G any, O ~func(*KindOptions) error](t *raysys.Table, name string, opts []O) Kind {
	k := &kind{name: name, make: func() any { return new(G) }, KindOptions: KindOptions{Idle: 15 * time.Minute, Mailbox: 10_000, Replies: time.Hour}}
	var bad error
	for _, o := range opts {
		if o == nil {
			bad = errors.Join(bad, errors.New("nil Option"))
			continue
		}
		bad = errors.Join(bad, o(&k.KindOptions))
	}
	k.define(t, reflect.TypeFor[G](), bad)
	if k.stands() || (k.Always || k.Durable) && !k.Stateless {
		k.wake = Kind{k}.declareWake()
	}
	return Kind{k}
}

func (k *kind) define(t *raysys.Table, g reflect.Type, bad error) {
	stored, err := storedIn(g)
	k.storedFields = stored
	if k.Durable {
		bad = errors.Join(bad, k.checkDurable())
	} else if len(k.maps) > 0 {
		bad = errors.Join(bad,
			errors.New("the struct has a grains.Map, which needs the option Durable: an entry is stored with its turn"))
	}
	if k.Movable {
		bad = errors.Join(bad, k.checkMovable())
	}
	if k.Always && k.Stateless {
		bad = errors.Join(bad, errors.New("options AlwaysOn and StatelessWorker: workers come and go with the calls"))
	}
	k.entry = t.Add("grain", k.name, 0, errors.Join(bad, err), programsCaller)
	k.entry.Impl = k
	k.tick = k.tickMethod()
}

// has reports whether e is a method of the kind.
func (k *kind) has(e *core.Entry) bool {
	m, ok := e.Impl.(*methodVariants)
	return ok && m.of() == k
}

// faked is the kind where fakes stand in for its methods: its grains have neither State nor hooks, and remember no calls.
func (k *kind) faked() *kind {
	f := &kind{KindOptions: k.KindOptions, entry: k.entry, name: k.name, make: func() any { return new(none) }, tick: k.tick}
	f.Durable = false
	return f
}

// checkDurable says why a kind cannot be durable.
func (k *kind) checkDurable() error {
	switch {
	case k.Stateless:
		return errors.New("options Durable and StatelessWorker: a stateless worker has nothing to commit")
	case k.Reentrant:
		return errors.New("options Durable and Reentrant: a call that comes back would change what another turn has not committed")
	case !k.stores():
		return errors.New("option Durable: the struct has no grains.State field and no Map: nothing to commit")
	}
	return nil
}

// checkMovable says why no activation of a kind can move.
func (k *kind) checkMovable() error {
	switch {
	case k.Stateless:
		return errors.New("options Movable and StatelessWorker: calls go to workers on all nodes, and no worker moves")
	case k.holds():
		return errors.New("options Movable and Holds: what an activation holds is its node's")
	case !k.moves():
		return fmt.Errorf("options Movable and Placement(%q): grains move that raysys.Balanced has placed", k.Strategy)
	}
	return nil
}

// moves reports whether activations of the kind may move to another node between two turns.
func (k *kind) moves() bool {
	return (k.Movable || k.Durable) && !k.Stateless && !k.holds() && (k.Strategy == "" || k.Strategy == raysys.Balanced)
}

// declareWake makes the method by which a grain is woken that stands, where it has moved, is always on, or has
// messages: a call of it is one like others, and does nothing.
func (k Kind) declareWake() Func {
	f := k.declare("raysys.wake", false, &method{
		value: core.TypeOf[none](), argType: core.TypeOf[none](), argOffset: unsafe.Offsetof(tailOf[none, none]{}.arg),
		call:    func(context.Context, any, *core.Future) error { return nil },
		records: makeRecord[none, none], empty: func(*core.Future) {},
	})
	if k.k.Durable {
		return f.ReadOnly()
	}
	return f.Idempotent()
}

// stands reports whether grains of the kind are to be active always, wherever: they are spread by their number.
func (k *kind) stands() bool { return k.Keep && k.Movable }

// checkLater says why no method of the kind can keep its calls.
func (k *kind) checkLater() error {
	switch {
	case k.Durable:
		return errors.New("LaterMethod and option Durable: the outcome of a call is stored with its turn; where others are to watch such a grain, publish what it does with package stream")
	case k.Stateless:
		return errors.New("LaterMethod and option StatelessWorker: no later call finds the worker that keeps this one")
	}
	return nil
}

// Name returns the kind's name.
func (k Kind) Name() string {
	if k.k == nil {
		return ""
	}
	return k.k.name
}

// method is what all handles of a method share.
type method struct {
	kind  *kind
	entry *core.Entry
	arg   *codec.Plan
	res   *codec.Plan
	opts  core.Options
	bad   error  // why no call can have opts
	place string // of an attempt in strict mode: the program's line that made the call
	// effect is what a task that calls the method has done by that, unless the method is readOnly or idempotent: such a task is not run again in silence.
	effect *core.Effect

	tally *tally.Cache // of all variants of the method

	readOnly, idempotent, reentrant bool
	later                           bool         // it may keep its calls
	tick                            bool         // its calls are ticks of timers
	sent                            *outbox.Sent // the message that its call delivers; nil for most

	value     *core.ValueType // of results
	argType   *core.ValueType
	argOffset uintptr // of the argument, from the future

	// What is compiled for the types of each method. call calls the program's and puts the result into the place of the value, records
	// makes a record, and empty drops the argument of one.
	call    func(ctx context.Context, g any, c *core.Future) error
	records func(form) unsafe.Pointer
	empty   func(*core.Future)
}

func defineMethod[G, A, R any](k Kind, name string, isNil, later bool, fn func(*G, context.Context, A) (R, error)) Func {
	return k.declare(name, isNil, &method{
		later: later,
		value: core.TypeOf[R](), argType: core.TypeOf[A](), argOffset: unsafe.Offsetof(tailOf[A, R]{}.arg),
		call: func(ctx context.Context, g any, c *core.Future) error {
			at := (*tailOf[A, R])(unsafe.Pointer(c))
			v, err := fn(g.(*G), ctx, at.arg)
			if err == nil {
				at.val = v
			}
			return err
		},
		records: makeRecord[A, R],
		empty: func(c *core.Future) {
			var zero A
			(*tailOf[A, R])(unsafe.Pointer(c)).arg = zero
		},
	})
}

// declare enters the method in the table.
func (k Kind) declare(name string, isNil bool, m *method) Func {
	var bad error
	if k.k == nil {
		// Without a kind there is no table to report to but the process's.
		k.k = &kind{name: "?", entry: &core.Entry{Kind: "grain", Name: "?", Table: core.DefaultTable}}
		bad = errors.New("the Kind is the zero value: make it with Define")
	}
	if isNil {
		bad = errors.Join(bad, errors.New("the function is nil"))
	}
	if name == "" {
		bad = errors.Join(bad, errors.New("the method name is empty"))
	}
	if m.later {
		k.k.later = true
		bad = errors.Join(bad, k.k.checkLater())
	}
	arg, err := codec.PlanOf(m.argType.Type)
	if err != nil {
		bad = errors.Join(bad, fmt.Errorf("argument: %w", err))
	}
	res, err := codec.PlanOf(m.value.Type)
	if err != nil {
		bad = errors.Join(bad, fmt.Errorf("result: %w", err))
	}
	var print uint64
	if arg != nil && res != nil {
		print = arg.Fingerprint()*31 + res.Fingerprint()
	}
	m.kind, m.arg, m.res, m.opts = k.k, arg, res, core.NewOptions[core.Option](nil)
	m.reentrant = k.k.Reentrant
	if bad == nil {
		m.bad = m.usable()
	}
	m.entry = k.k.entry.Table.Add("method", k.k.name+"."+name, print, bad, programsCaller+1)
	m.effect, m.tally = &core.Effect{Method: m.entry.Name}, &tally.Cache{}
	m.entry.Impl = newVariants(m)
	return Func{m}
}

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
		if is, err := tellLater(f.m, ctx, a, id, unsafe.Pointer(&kept)); is {
			return err
		}
	}
	var s submission
	if failed := f.m.begin(ctx, id, &s); failed != nil {
		return failed.Failure()
	}
	*(*A)(s.arg) = arg
	return f.m.queuedOrWhy(f.m.submit(&s))
}

// queuedOrWhy is nil for a call that was queued; it may even have failed since.
func (m *method) queuedOrWhy(l core.Link) error {
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

// TypesOf are the types of the argument and the result of f, which is not zero.
func TypesOf(f Func) (arg, res *core.ValueType) { return f.m.argType, f.m.value }

// KindOf is the name of the kind of f, which is not zero.
func KindOf(f Func) string { return f.m.kind.name }

// CallPacked makes the call.
func CallPacked(ctx context.Context, p *core.Packed, id graindir.ID) core.Link {
	return callPacked(ctx, p, id, nil)
}

// callPacked makes the call, which delivers a message where that is not nil. At a durable grain each of those is a
// transaction: its number is stored.
func callPacked(ctx context.Context, p *core.Packed, id graindir.ID, sent *outbox.Sent) core.Link {
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
	if sent != nil && m.kind.Durable {
		m.readOnly, m.reentrant, m.sent = false, false, sent
	}
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

// Wake calls a grain that is always on, or has messages. It waits for nothing: who asked for it looks whether it has
// come to anything.
func Wake(ctx context.Context, t *raysys.Table, id graindir.ID) error {
	entry := t.Lookup("grain", id.Kind)
	if entry == nil || entry.Impl.(*kind).wake.m == nil {
		return fmt.Errorf(
			"wake %s: %w: no kind of this program that is always on, or Durable", Shown(id), raysys.ErrUnknownFunc)
	}
	Call(ctx, entry.Impl.(*kind).wake, id, none{})
	return nil
}
