package grainengine

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

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

// ValueType says what the Future's value is.
func (c *call[G, A, R]) ValueType() *core.ValueType { return c.method.value }

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
	if a := c.act.Load(); a != nil && (c.method.reentrant || c.method.readOnly && a.onlyReaders()) {
		if a.admitChain(c, !c.method.reentrant) {
			return true
		}
	}
	// Claimed first: a call that has started or was refused meanwhile closes no cycle any more.
	if c.Future.Start() {
		c.Future.Fail(&raysys.CycleError{Chain: chain})
	}
	return true
}

// Describe tells a new turn what it is; see core.Future.Turn.
func (c *call[G, A, R]) Describe(t *core.Turn) { t.SetKind(core.TurnGrain, c.act.Load()) }

// What a call is beyond core.Work.
var (
	_ core.Limited   = (*call[none, none, none])(nil)
	_ core.Describer = (*call[none, none, none])(nil)
	_ core.Stoppable = (*call[none, none, none])(nil)
	_ core.Limited   = (*retried[none, none, none])(nil)
	_ core.Stoppable = (*retried[none, none, none])(nil)
)
