package grainengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// defaultDeadline of a grain call, so that a caller never waits for ever on a grain that hangs.
const defaultDeadline = 30 * time.Second

// call is the record of one grain call: future, mail and the method's context in one allocation, 128 bytes for an int
// argument and result.
type call[G, A, R any] struct {
	core.Result[R]
	mail
	method *method[G, A, R]
	act    atomic.Pointer[activation] // where it is queued; another when that one stops before the call's turn
	until  int64                      // its deadline on the runtime's clock
	arg    A
}

// anyCall is a call to code that does not know its types: the engine, and every mailbox.
type anyCall interface {
	core.Work
	future() *core.Future
	ownMail() *mail
	// queueAt says in which activation's mailbox the call is. It comes again when that one stops before the call's
	// turn.
	queueAt(*activation)
	queuedAt() *activation
	// do runs the call on a, and settles its future. It does nothing when the call was started elsewhere or has ended.
	// panicked is the value of the method's panic: the kind's PanicChoice decides what follows from it.
	do(a *activation) (panicked any)
	isReadOnly() bool
	isReentrant() bool
	remote
}

func (c *call[G, A, R]) future() *core.Future  { return &c.Future }
func (c *call[G, A, R]) ownMail() *mail        { return &c.mail }
func (c *call[G, A, R]) queueAt(a *activation) { c.act.Store(a) }
func (c *call[G, A, R]) isReadOnly() bool      { return c.method.readOnly }
func (c *call[G, A, R]) isReentrant() bool     { return c.method.reentrant }

// grainsRuntime is what the runtime of a context must be to call grains.
type grainsRuntime interface{ Grains() *Engine }

func engineOf(t *core.Turn) *Engine { return t.Runtime().(grainsRuntime).Grains() }

// Of returns the engine of the node that ctx is of, nil without one.
func Of(ctx context.Context) *Engine {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return engineOf(t)
}

// admit makes the checks of every call and returns the turn to submit under.
func (m *method[G, A, R]) admit(ctx context.Context, id ID) (*Engine, *core.Turn, error) {
	t, own, err := core.TurnOf(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
	}
	e := engineOf(t)
	switch {
	case !m.entry.In(e.cfg.Table):
		return nil, nil, fmt.Errorf("call: %w", m.entry.Unknown())
	case m.bad != nil:
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, m.bad)
	case id.Kind != m.kind.name:
		return nil, nil, fmt.Errorf("call %s: %w: the grain is %q, of another kind or the zero Grain: use Kind.Get", m.entry.Name, raysys.ErrInvalidRef, shown(id.String()))
	case e.closed.Load():
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, raysys.ErrClosed)
	}
	if err := t.Cancelled(); err != nil {
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
	}
	if !own && ctx.Err() != nil {
		return nil, nil, fmt.Errorf("call %s: %w: %w", m.entry.Name, raysys.ErrCancelled, context.Cause(ctx))
	}
	if m.opts.Detached {
		t = t.Detached()
	}
	return e, t, nil
}

// prepare fills the record. w is the call itself, or the larger record that it is part of.
func (c *call[G, A, R]) prepare(w anyCall, m *method[G, A, R], e *Engine, t *core.Turn) {
	c.method, c.mail.msg = m, w
	c.Init(w, t, t.Next(), m.gated)
	switch {
	case m.opts.NoLimit:
	case m.opts.Deadline != 0:
		c.until = e.cfg.Now() + int64(m.opts.Deadline)
	default:
		c.until = e.cfg.Rough() + int64(defaultDeadline)
	}
}

func (m *method[G, A, R]) submit(ctx context.Context, id ID, arg A) core.Ref[R] {
	e, t, err := m.admit(ctx, id)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if m.opts.Retried {
		return m.submitRetried(e, t, id, arg, core.Ref[A]{})
	}
	var w anyCall
	var c *call[G, A, R]
	if e.cfg.Cluster == nil {
		c = &call[G, A, R]{}
		w = c
	} else {
		w, c = m.record(e, id.Key)
	}
	c.prepare(w, m, e, t)
	if j := t.Job(); j.Inspect != nil {
		place := m.place
		if place == "" {
			place = core.CallerPlace(programsCaller)
		}
		if arg, err = core.HandOver(j, "argument of "+m.entry.Name+place, arg); err != nil {
			return core.FailedRef[R](err)
		}
	}
	c.arg = arg
	if err := e.deliver(m.kind, id.Key, w); err != nil {
		return core.FailedRef[R](fmt.Errorf("call %s: %w", e.bind(m.kind).nameOf(id.Key, m.entry), err))
	}
	return c.Ref()
}

// onCall is a call that waits for its argument first.
type onCall[G, A, R any] struct {
	call[G, A, R]
	engine *Engine
	key    string
	ref    core.Ref[A]
	waiter core.Waiter
	needs  atomic.Pointer[core.Future] // of ref, while it waits
}

// Waits implements core.Work.
func (o *onCall[G, A, R]) Waits() ([]*core.Turn, []*core.Future) {
	if c := o.needs.Load(); c != nil {
		return nil, []*core.Future{c}
	}
	return o.call.Waits()
}

func (m *method[G, A, R]) submitOn(ctx context.Context, id ID, arg core.Ref[A]) core.Ref[R] {
	if arg.IsZero() {
		return core.FailedRef[R](fmt.Errorf("call %s: %w: the argument is the zero Ref", m.entry.Name, raysys.ErrInvalidRef))
	}
	e, t, err := m.admit(ctx, id)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if err := arg.Borrow(t); err != nil {
		return core.FailedRef[R](fmt.Errorf("call %s: %w", m.entry.Name, err))
	}
	if m.opts.Retried {
		var none A
		return m.submitRetried(e, t, id, none, arg)
	}
	o := &onCall[G, A, R]{engine: e, key: id.Key, ref: arg}
	o.prepare(o, m, e, t)
	o.needs.Store(arg.RefFuture())
	if !arg.RefFuture().Subscribe(&o.waiter, o) {
		o.Resolved(nil)
	}
	return o.Ref()
}

// Resolved implements core.Resolved: the argument is there, so the call takes its place.
func (o *onCall[G, A, R]) Resolved(w *core.Waiter) {
	v, here, err := fetched(o.ref, w, &o.waiter, o)
	if !here {
		return
	}
	o.ref.Return()
	if err == nil {
		v, err = core.HandOver(o.Up().Job(), "argument by reference of "+o.method.entry.Name, v)
	}
	// The result must not keep the argument.
	o.ref, o.waiter = core.Ref[A]{}, core.Waiter{}
	o.needs.Store(nil)
	if err == nil {
		o.arg = v
		err = o.engine.deliver(o.method.kind, o.key, o)
	}
	if err != nil {
		o.Fail(err)
		return
	}
	core.Recheck(&o.Future)
}

// Name implements core.Work.
func (c *call[G, A, R]) Name() string {
	if a := c.act.Load(); a != nil {
		return a.kind.nameOf(a.key, c.method.entry)
	}
	return c.method.entry.Name
}

// Expires implements core.Work.
func (c *call[G, A, R]) Expires() int64 { return c.until }

// Limit is how long the call may take.
func (c *call[G, A, R]) Limit() time.Duration { return cmp.Or(c.method.opts.Deadline, defaultDeadline) }

// Help implements core.Work. A grain's turn never runs on its caller's goroutine: it may hang, and the caller has a
// deadline to keep.
func (c *call[G, A, R]) Help(*core.Turn) bool { return false }

// Waits implements core.Work: a queued call waits for the turns its activation is in.
func (c *call[G, A, R]) Waits() ([]*core.Turn, []*core.Future) {
	a := c.act.Load()
	if a == nil {
		return nil, nil
	}
	return a.turns(), nil
}

// Break implements core.Work: the call is part of a cycle of waits.
func (c *call[G, A, R]) Break(chain []string) bool {
	if a := c.act.Load(); c.method.reentrant || c.method.readOnly && a.onlyReaders() {
		if a.admitChain(c, !c.method.reentrant) {
			return true
		}
	}
	// Claimed first: a call that has started or was refused meanwhile closes no cycle any more.
	if c.Start() {
		c.Fail(&raysys.CycleError{Chain: chain})
	}
	return true
}

// Describe tells a new turn what it is; see core.Future.Turn.
func (c *call[G, A, R]) Describe(t *core.Turn) { t.SetKind(core.TurnGrain, c.act.Load()) }

func (c *call[G, A, R]) do(a *activation) (panicked any) {
	if !c.Start() {
		return nil
	}
	up := c.Up()
	if err := up.Cancelled(); err != nil {
		c.Cancel(err)
		return nil
	}
	if c.until != 0 && c.method.clock(&a.kind.engine.cfg)() >= c.until {
		c.Cancel(fmt.Errorf("%s waited in the mailbox: %w", c.Name(), raysys.ErrDeadline))
		return nil
	}
	v, panicked, err := c.invoke(a)
	if a.placement != nil {
		err = a.fence(c, err)
	}
	if t := c.OwnTurn(); t != nil {
		t.End()
	}
	var zero A
	c.arg = zero
	if err == ErrLater {
		return panicked
	}
	if j := up.Job(); j.Inspect != nil {
		if err == nil {
			v, err = core.HandOver(j, "result of "+c.method.entry.Name, v)
		} else {
			err = j.Inspect.Fail(err)
		}
	}
	if err == nil {
		c.Resolve(v)
		return panicked
	}
	// An error that only reports the call's own end is that end.
	if cause := c.cancelled(); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		c.Cancel(cause)
		return panicked
	}
	c.Fail(err)
	return panicked
}

func (c *call[G, A, R]) cancelled() error {
	if t := c.OwnTurn(); t != nil {
		return t.Cancelled()
	}
	return c.Up().Cancelled()
}

func (c *call[G, A, R]) invoke(a *activation) (v R, panicked any, err error) {
	normal := false
	defer func() {
		if normal {
			return
		}
		if a.placement != nil {
			a.placement.markUnsure()
		}
		if panicked = recover(); panicked != nil {
			err = c.taskError(&raysys.PanicError{Value: panicked}, debug.Stack())
			if tell := c.Up().Job().Panicked; tell != nil {
				tell(c.Name(), err)
			}
			return
		}
		if t := c.OwnTurn(); t != nil {
			t.End()
		}
		c.Fail(c.taskError(errGoexit, debug.Stack()))
	}()
	v, err = c.method.fn(a.state.(*G), c, c.arg)
	normal = true
	if err != nil && err != ErrLater {
		err = c.taskError(err, nil)
	}
	return v, nil, err
}

// AnswerLater implements Call.
func (c *call[G, A, R]) AnswerLater(v R) {
	if j := c.Up().Job(); j.Inspect != nil {
		var err error
		if v, err = core.HandOver(j, "result of "+c.method.entry.Name, v); err != nil {
			c.Fail(err)
			return
		}
	}
	c.Resolve(v)
}

// Copies implements Call: an answer to another node is encoded when the call settles.
func (c *call[G, A, R]) Copies() bool {
	_, ok := c.msg.(*inboundRecord[G, A, R])
	return ok
}

// clock is exact for deadlines that the program chose, and else the cheap one.
func (m *method[G, A, R]) clock(cfg *Config) func() int64 {
	if m.opts.Deadline != 0 {
		return cfg.Now
	}
	return cfg.Rough
}

var errGoexit = errors.New("the method ended its goroutine (runtime.Goexit, or testing's FailNow): return an error instead")

// taskError says where err came from. stack is that of a panic in this call, else nil: then the one that err brings is
// taken.
func (c *call[G, A, R]) taskError(err error, stack []byte) error {
	if stack == nil {
		stack = raysys.Stack(err)
	}
	return &raysys.TaskError{
		Task: c.ID(), Function: c.Name(), Node: c.Up().Job().Node, Attempt: 1, Err: err, Stack: stack,
	}
}
