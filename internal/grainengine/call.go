package grainengine

import (
	"cmp"
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/tally"
)

// call is the record of one grain call: future, mail and the method's context in one allocation, 128 bytes with an int argument
// and an int result, which follow it in memory: see tailOf. Larger records end with it.
type call struct {
	mail
	method *method
	act    atomic.Pointer[activation] // where it is queued; another when that one stops before the call's turn
	until  int64                      // its deadline on the runtime's clock
	Future core.Future                // the last: the value follows it
}

// tailOf is how the records of all calls with these types end. They have no methods, which would be compiled for each type: plain
// code goes by method.argOffset.
type tailOf[A, R any] struct {
	future core.Future
	val    R
	arg    A
}

// form is what a call is to its node.
type form int

const (
	callHere form = iota
	callOut
	callIn
)

// makeRecord makes the record of a call: that of its form, and behind it what tailOf has.
func makeRecord[A, R any](f form) unsafe.Pointer {
	switch f {
	case callOut:
		return unsafe.Pointer(new(struct {
			record outboundRecord
			val    R
			arg    A
		}))
	case callIn:
		return unsafe.Pointer(new(struct {
			record inboundRecord
			val    R
			arg    A
		}))
	}
	return unsafe.Pointer(new(struct {
		record call
		val    R
		arg    A
	}))
}

// rareRecord is makeRecord for a record T that few programs need: its type is made when it is needed.
func rareRecord[T any](m *method) *T {
	t := reflect.StructOf([]reflect.StructField{
		{Name: "Record", Type: reflect.TypeFor[T]()}, {Name: "Val", Type: m.value.Type}, {Name: "Arg", Type: m.argType.Type},
	})
	return (*T)(reflect.New(t).UnsafePointer())
}

// argAt is where the argument of the call is whose future is c.
func (m *method) argAt(c *core.Future) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(c), m.argOffset)
}

func (c *call) argAt() unsafe.Pointer { return c.method.argAt(&c.Future) }

// dropArg drops the argument: nothing reads it any more.
func (c *call) dropArg() { c.method.empty(&c.Future) }

// callOf is the call that c is the future of, nil where it is that of other work.
func callOf(c *core.Future) *call {
	switch w := c.Work().(type) {
	case *call:
		return w
	case *outboundRecord:
		return &w.call
	case *inboundRecord:
		return &w.call
	case *onCall:
		return &w.call
	}
	return nil
}

// queueAt says in which activation's mailbox the call is, as queuedAt tells. It comes again when that one stops before the call's turn.
func (c *call) queueAt(a *activation) { c.act.Store(a) }
func (c *call) queuedAt() *activation { return c.act.Load() }
func (c *call) isReadOnly() bool      { return c.method.readOnly }

// ValueType says what the Future's value is.
func (c *call) ValueType() *core.ValueType { return c.method.value }

// Name implements core.Work.
func (c *call) Name() string {
	if a := c.act.Load(); a != nil {
		return a.kind.nameOf(a.key, c.method.entry)
	}
	if v := c.inbound(); v != nil {
		return v.kind.nameOf(v.key, c.method.entry)
	}
	if o := c.outbound(); o != nil {
		return o.name()
	}
	return c.method.entry.Name
}

// Expires implements core.Work.
func (c *call) Expires() int64 { return c.until }

// Limit is how long the call may take.
func (c *call) Limit() time.Duration { return cmp.Or(c.method.opts.Deadline, defaultDeadline) }

// Help implements core.Work. A grain's turn never runs on its caller's goroutine: it may hang, and the caller has a
// deadline to keep.
func (c *call) Help(*core.Turn) bool { return false }

// Waits implements core.Work: a queued call waits for the turns its activation is in.
func (c *call) Waits() ([]*core.Turn, []*core.Future) {
	a := c.act.Load()
	if a == nil || c.method.later && !c.Future.Pending() { // anything may settle a call that is kept
		return nil, nil
	}
	return a.inProgress(), nil
}

// Break implements core.Work: the call is part of a cycle of waits.
func (c *call) Break(chain []string) bool {
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

// Dropped implements core.Droppable: the call has settled before its turn.
func (c *call) Dropped(bool) {
	if c.act.Load() != nil { // else it is another node's to count
		tallyOf(engineOf(c.Future.Up()), c.method).Ended(tally.Cancelled, 1)
	}
}

// Describe tells a new turn what it is; see core.Future.Turn.
func (c *call) Describe(t *core.Turn) { t.SetKind(core.TurnGrain, c.act.Load()) }

// What a call is beyond core.Work.
var (
	_ core.Limited   = (*call)(nil)
	_ core.Describer = (*call)(nil)
	_ core.Stoppable = (*call)(nil)
	_ core.Droppable = (*call)(nil)
	_ core.Limited   = (*retried)(nil)
	_ core.Stoppable = (*retried)(nil)
)
