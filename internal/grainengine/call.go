package grainengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/outbox"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/wire"
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
		e := engineOf(c.Future.Up())
		of := tallyOf(e, c.method)
		countWait(e, of, c, 1)
		of.Ended(tally.Cancelled, 1)
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

func (c *call) do(a *activation) (panicked any) {
	if a.tenure != nil && a.tenure.durable != nil {
		return c.doDurable(a)
	}
	if !c.Future.Start() {
		return nil
	}
	up := c.Future.Up()
	if refuseEnded(a, c) {
		return nil
	}
	panicked, err := c.invoke(a)
	if err == errKept {
		a.laters.Load().keepCall(c)
		return panicked
	}
	if a.tenure != nil {
		err = a.tenure.mayAnswer(c, err)
	}
	if t := c.Future.OwnTurn(); t != nil {
		t.End()
	}
	c.dropArg()
	if j := up.Job(); j.Inspect != nil {
		if err == nil {
			err = c.handOverResult()
		} else {
			err = j.Inspect.Fail(err)
		}
	}
	if err == nil {
		c.resolve()
		return panicked
	}
	// An error that only reports the call's own end is that end.
	if cause := c.cancelled(); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		c.Future.Cancel(cause)
	} else {
		c.Future.Fail(err)
	}
	if c.Future.Failed() { // a value that is not answered is not kept
		c.Future.Forget()
	}
	return panicked
}

// refuseEnded cancels a call that has started, if nothing waits for it any more.
func refuseEnded(a *activation, c *call) bool {
	err := c.Future.Up().Cancelled()
	if err == nil && c.until != 0 && c.method.clock(&a.kind.engine.cfg)() >= c.until {
		err = fmt.Errorf("%s waited in the mailbox: %w", c.Name(), raysys.ErrDeadline)
	}
	if err == nil {
		return false
	}
	of := tallyOf(a.kind.engine, c.method)
	countWait(a.kind.engine, of, c, 1)
	of.Ended(tally.Cancelled, 1)
	c.Future.Cancel(err)
	return true
}

func (c *call) cancelled() error {
	if t := c.Future.OwnTurn(); t != nil {
		return t.Cancelled()
	}
	return c.Future.Up().Cancelled()
}

// handOverResult is for strict mode.
func (c *call) handOverResult() error {
	return core.HandOver(c.Future.Up().Job(), "result of "+c.method.entry.Name, c.method.value, c.Future.ValueAt())
}

// invoke calls the method, which puts its result into the place of the value.
func (c *call) invoke(a *activation) (panicked any, err error) {
	normal := false
	of, stripe, began := tallyOf(a.kind.engine, c.method), stripeOf(a), int64(0)
	var event *tally.Event // where the turn is recorded
	if on := a.kind.engine.cfg.Tally.Recorder(); on != nil {
		if event = on.Take(stripe); event != nil {
			event.Begin(of, &c.Future, 0, a.kind.engine.cfg.Now())
		}
	}
	defer func() {
		if normal {
			return
		}
		if a.tenure != nil {
			a.tenure.markUnsure()
		}
		if panicked = recover(); panicked != nil {
			err = c.taskError(&raysys.PanicError{Value: core.SoundPanic(panicked)}, debug.Stack())
			o := count(of, c, tally.Panic, err)
			if event != nil {
				event.End(o, a.kind.engine.cfg.Now())
			}
			if tell := c.Future.Up().Job().Panicked; tell != nil {
				tell(c.Name(), err)
			}
			if c.method.later {
				err = a.laters.Load().returned(c, err)
			}
			return
		}
		if t := c.Future.OwnTurn(); t != nil {
			t.End()
		}
		switch {
		case a.tenure == nil || a.tenure.durable == nil:
		case c.method.transacts():
			a.tenure.durable.rollBack(c.Future.OwnTurn())
		default: // a read, maybe beside a transaction that waits
			dropTells(a.tenure.durable, c.Future.OwnTurn())
		}
		err = c.taskError(errGoexit, debug.Stack())
		o := count(of, c, tally.Error, err)
		if event != nil {
			event.End(o, a.kind.engine.cfg.Now())
		}
		if c.method.later && a.laters.Load().returned(c, err) == errKept {
			a.laters.Load().keepCall(c)
			return
		}
		c.Future.Fail(err)
	}()
	if s := a.holding.slot(); s != nil {
		c.Future.SetSlot(s)
	}
	if of.Timed(stripe) {
		began = a.kind.engine.cfg.Now()
		countWait(a.kind.engine, of, c, tally.Sample)
	}
	if d := a.kind.detour; !d.Passes(&c.Future) {
		err = c.method.call(&c.Future, a.state, &c.Future)
	} else {
		err = around(c, a, d)
	}
	normal = true
	if began != 0 {
		of.Sampled(a.kind.engine.cfg.Now()-began, tally.Sample)
	}
	o := tally.OK
	switch {
	case err == nil && !c.Future.Settled():
		of.OK(stripe)
	case err == nil:
		o = tally.Cancelled // from outside, while it ran
		of.Ended(o, 1)
	case err != errKept: // else Later counts it
		err = c.taskError(core.Sound(err), nil)
		o = count(of, c, tally.Error, err)
	}
	if event != nil {
		event.End(o, a.kind.engine.cfg.Now())
	}
	if c.method.later {
		err = a.laters.Load().returned(c, err)
	}
	return nil, err
}

// around calls the method, or what stands in for it, inside the filters of the kind and the node. A tick passes none.
func around(c *call, a *activation, d *detour.Detour) error {
	m := c.method
	if m.tick {
		return m.call(&c.Future, a.state, &c.Future)
	}
	fake, kept := d.Fake(m.entry), false
	w := core.NewExecuted(m.entry.Name, a.key, func() any {
		if m.argType.Nothing() {
			return nil
		}
		return m.argType.At(c.argAt()).Addr().Interface()
	})
	waited := time.Duration(0)
	if made := madeAt(c); made != 0 {
		waited = time.Duration(max(m.clock(&a.kind.engine.cfg)()-made, 1))
	}
	err := d.Run(&c.Future, w, waited, func(ctx context.Context) (err error) {
		if fake != nil {
			err = fake(ctx, a.key, c.argAt(), c.Future.ValueAt())
		} else {
			err = m.call(ctx, a.state, &c.Future)
		}
		if kept = err == errKept; kept {
			return nil
		}
		if err == nil {
			w.Returned(&c.Future)
		} else if !m.later { // the value of a turn before it, which did not count
			c.Future.Forget()
		}
		return err
	})
	if err == nil && kept {
		return errKept
	}
	return err
}

// tallyOf is what counts the calls of the method.
func tallyOf(e *Engine, m *method) *tally.Function {
	return m.tally.Of(e.cfg.Tally, tally.CallKind, m.entry.Name)
}

// madeAt is when the call was made, or arrived from another node, about. It is 0 where that is not known: of one of
// this node without a deadline.
func madeAt(c *call) int64 {
	switch v := c.inbound(); {
	case v != nil:
		return v.came
	case c.until == 0 || c.until == core.Far:
		return 0
	}
	return c.until - int64(c.Limit())
}

// countWait counts how long the call has waited for its turn, which begins now, or which it does not get. n is as
// Function.Waited has it.
func countWait(e *Engine, of *tally.Function, c *call, n uint64) {
	if made := madeAt(c); made != 0 {
		of.Waited(c.method.clock(&e.cfg)()-made, n)
	}
}

// stripeOf says in which of a method's counters the calls of an activation count.
func stripeOf(a *activation) uint { return uint(uintptr(unsafe.Pointer(a)) >> 9) }

// count counts a call that failed with err, which says where it comes from, and says how it ended. An error that only reports the call's own
// end is that end.
func count(of *tally.Function, c *call, o tally.Outcome, err error) tally.Outcome {
	if o == tally.Error && c.cancelled() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		of.Ended(tally.Cancelled, 1)
		return tally.Cancelled
	}
	why := err
	if failed, ok := errors.AsType[*raysys.TaskError](err); ok {
		why = failed.Err
	}
	if o == tally.Error && tally.Expected(why) {
		of.Ended(tally.OK, 1)
		return tally.OK
	}
	of.Failed(o, time.Now(), func() tally.Example {
		text := why.Error()
		if none, ok := errors.AsType[*failedActivation](err); ok {
			text = fmt.Sprintf("%v: %s", ErrActivation, none.text())
		}
		return tally.Example{Text: text, ID: c.Future.ID().String(), Work: c.Name(), Stack: raysys.Stack(err)}
	})
	return o
}

// clock is exact for deadlines that the program chose, and else the cheap one.
func (m *method) clock(cfg *Config) func() int64 {
	if m.opts.Deadline != 0 {
		return cfg.Now
	}
	return cfg.Rough
}

var errGoexit = errors.New("the method ended its goroutine (runtime.Goexit, or testing's FailNow): return an error instead")

// taskError says where err came from. stack is that of a panic in this call, else nil: then the one that err brings is
// taken.
func (c *call) taskError(err error, stack []byte) error {
	if stack == nil {
		stack = raysys.Stack(err)
	}
	return &raysys.TaskError{
		Task: c.Future.ID(), Function: c.Name(), Node: c.Future.Up().Job().Node, Attempt: 1, Err: err, Stack: stack,
	}
}

// valueOrWait puts the value of a future that was borrowed and has settled into p. When that is elsewhere it is fetched,
// here is false, and to.Resolved(next) follows. resolved is what Resolved was called with, nil at first.
func valueOrWait(of *core.Future, t *core.ValueType, p unsafe.Pointer, resolved, next *core.Waiter, to core.Resolved) (here bool, err error) {
	c := of
	if resolved != nil {
		c = resolved.Future() // one whose fetch has failed just now is not fetched again
	}
	for !c.Follow(next, to) {
		if here, err = of.PeekInto(t, p); here {
			return true, err
		}
		c = of
	}
	return false, nil
}

// pulled is the argument of a call from another node while it is fetched.
type pulled struct {
	call        *call
	inboundCall *inboundCall
	ref         *core.Future
	arg         reflect.Value // a pointer to where it goes first
	waiter      core.Waiter
}

// pull fetches an argument that came by reference, and then lets v go on.
func (c *call) pull(v *inboundCall, object *core.Future) {
	ref, err := object.As(c.method.argType)
	if err == nil {
		err = ref.Pin()
	}
	if err != nil {
		v.fail(err)
		return
	}
	p := &pulled{call: c, inboundCall: v, ref: ref, arg: reflect.New(c.method.argType.Type)}
	if !ref.Subscribe(&p.waiter, p) {
		p.Resolved(nil)
	}
}

// Resolved implements core.Resolved: the argument is here, and the call goes on.
func (p *pulled) Resolved(w *core.Waiter) {
	t := p.call.method.argType
	here, err := valueOrWait(p.ref, t, p.arg.UnsafePointer(), w, &p.waiter, p)
	if !here {
		return
	}
	p.ref.Return()
	if err != nil {
		p.inboundCall.fail(err) // and the calls behind it go on
		return
	}
	p.inboundCall.peer.mu.Lock()
	if p.inboundCall.argument == argumentPulled { // else it has ended meanwhile
		t.At(p.call.argAt()).Set(p.arg.Elem())
	}
	p.inboundCall.peer.mu.Unlock()
	p.inboundCall.peer.release(p.inboundCall)
}

// settleElsewhere ends the call with a result that stays where it was computed until it is needed.
func (c *call) settleElsewhere(r wire.Reader, refs wire.References) error {
	src, size, err := wire.ReadLarge(&r, refs)
	if err != nil {
		return err
	}
	if c.Future.Start() {
		c.dropArg()
		c.Future.ForwardSized(src, size)
	}
	return nil
}

// The methods of a call that let it travel.

// outbound returns the outbound part of the record, nil where it has none.
func (c *call) outbound() *outboundCall {
	if r, ok := c.Future.Work().(*outboundRecord); ok {
		return &r.outboundCall
	}
	return nil
}

// inbound returns the inbound part of a call from another node, nil for one of this node.
func (c *call) inbound() *inboundCall {
	if r, ok := c.Future.Work().(*inboundRecord); ok {
		return &r.inboundCall
	}
	return nil
}

func (c *call) expireAt(until int64) { c.until = until }

func (c *call) named() string {
	if v := c.inbound(); v != nil {
		return v.callKey
	}
	return c.method.opts.Key
}

// sentBy returns the message that the call delivers to a durable grain; nil for most.
func sentBy(c *call) *outbox.Sent {
	if v := c.inbound(); v != nil {
		return v.sent
	}
	return c.method.sent
}

func (c *call) bundle() core.Bundle { return c.method.opts.Bundle }

func (c *call) conditions() []core.Condition { return c.method.opts.Conditions }

func (c *call) facts() facts {
	m := c.method
	f := facts{entry: m.entry, idempotent: m.idempotent || m.kind.Durable, until: c.until, strategy: raysys.Strategy(m.opts.Strategy), labels: m.opts.Labels, waits: m.opts.Waits}
	if m.readOnly {
		f.flags |= flagReadOnly
	}
	if m.reentrant {
		f.flags |= flagReentrant
	}
	if m.opts.Deadline != 0 {
		f.flags |= flagExact
	}
	if m.kind.Durable && c.Future.Up().Kind() != core.TurnRoot {
		f.flags |= flagOfTurn
	}
	if m.opts.Key != "" {
		f.flags |= flagKeyed
	}
	return f
}

// encode appends the argument, of which size is argSize.
func (c *call) encode(dst []byte, size int, refs wire.References) ([]byte, error) {
	v := c.argAt()
	if c.method.arg.Fixed() {
		return wire.AppendValue(dst, c.method.arg, v, refs)
	}
	if size <= wire.ValueLimit {
		out, err := wire.AppendValue(dst, c.method.arg, v, refs)
		if !errors.Is(err, raysys.ErrTooLarge) {
			return out, err
		}
	}
	return wire.AppendLarge(dst, refs, core.Hold(&c.Future, 0, c.method.argType, v))
}

// argSize is about what the argument takes encoded; 0 where its type says that it is small.
func (c *call) argSize() int {
	if c.method.arg.Fixed() {
		return 0
	}
	return c.method.arg.SizeAt(c.argAt())
}

func (c *call) exports() bool { return !c.method.arg.Fixed() }

func (c *call) references() []*core.Future {
	if !c.method.arg.HasRefs() { // referred allocates
		return nil
	}
	return referred(c.method.arg, c.argAt())
}

// referred lists what the value at v refers to.
func referred(p *codec.Plan, v unsafe.Pointer) (futures []*core.Future) {
	p.RefsAt(v, func(r core.RefValue) {
		if c := r.RefFuture(); c != nil {
			futures = append(futures, c)
		}
	})
	return futures
}

func (c *call) take(r wire.Reader, refs wire.References) error {
	return readValue(r, c.method.arg, c.argAt(), refs)
}

// readValue is wire.ReadValue at the end of a frame. A value without references, thus nearly every one, needs no
// reader on the heap.
func readValue(r wire.Reader, p *codec.Plan, v unsafe.Pointer, refs wire.References) error {
	if p.HasRefs() {
		escapes := r
		return wire.ReadValue(&escapes, p, v, refs)
	}
	body := r.Sized()
	if err := r.Err(); err != nil {
		return err
	}
	return p.DecodeAt(body, v, nil)
}

// resolve settles the call with the value that is in its place. Where that goes along with the answer to another node, it is that
// node's from now on.
func (c *call) resolve() bool {
	if c.inbound() != nil && !wire.Exceeds(c.method.res, c.Future.ValueAt(), wire.PushLimit) {
		return c.Future.ResolvePassing()
	}
	return c.Future.Resolve()
}

func (c *call) settle(r wire.Reader, refs wire.References) error {
	if r.Large() {
		return c.settleElsewhere(r, refs)
	}
	if !c.Future.Start() { // it has ended: what the value refers to is given back nevertheless
		return readValue(r, c.method.res, reflect.New(c.method.value.Type).UnsafePointer(), refs)
	}
	if err := readValue(r, c.method.res, c.Future.ValueAt(), refs); err != nil {
		return err
	}
	c.dropArg() // nothing else reads the argument now
	if wire.Exceeds(c.method.res, c.Future.ValueAt(), wire.InlineLimit) {
		go c.Future.Resolve() // the store may have to make room for it, and the link's reader does not wait
	} else {
		c.Future.Resolve()
	}
	return nil
}

// Stopped implements core.Stoppable: a call that runs on another node learns that it was cancelled.
func (c *call) Stopped() {
	if e := engineOf(c.Future.Up()); e.cfg.Cluster != nil {
		if o, ok := e.forwarded.Load(&c.Future); ok {
			o.(*outboundCall).stopped()
		}
	}
}

// outboundRecord is the record of a call whose grain was not on this node when it was made.
type outboundRecord struct {
	outboundCall outboundCall
	call         // the last: see there
}

// Help implements core.Work: the caller is about to wait, so the call is sent now.
func (f *outboundRecord) Help(*core.Turn) bool {
	f.outboundCall.flush()
	return false
}

// Stopped implements core.Stoppable.
func (f *outboundRecord) Stopped() { f.outboundCall.stopped() }

// record makes the record of a call.
func (m *method) record(e *Engine, key string) (core.Work, *call) {
	keyed := m.opts.Key != "" // the outbound part knows when it was made
	if e.cfg.Cluster == nil || !keyed && e.bind(m.kind).local(key) {
		c := (*call)(m.records(callHere))
		return c, c
	}
	f := (*outboundRecord)(m.records(callOut))
	f.outboundCall.call, f.outboundCall.kind, f.outboundCall.key = &f.call, e.bind(m.kind), key
	if keyed {
		f.outboundCall.first = time.Now().UnixMilli()
	}
	return f, &f.call
}

// What the search for cycles over nodes asks of calls.

// The frames between grain engines. Whatever follows the fields known here is skipped, so that later versions may add
// to the end (rule C4); the frames of this version are in testdata.
//
//	KindCall        flags slot scope method key token left seq | argument
//	                flags slot scope method key token left seq callkey | argument    when flagKeyed is set
//	                flags slot scope method key token left seq callkey first | argument    when flagFirst is set, too
//	                ... sender number before | argument          behind these when flagMessage is set
//	                flags slot | argument                        when flagBody is set
//	KindCallResult  slot status | value, error or place
//	KindCallCancel  slot
//	KindCallForget  method key id, of each call; a zero id ends the answer to a KindCallAsk
//	KindCallAsk     method key count | id, of each call

// Flags of a call.
const (
	flagReadOnly uint32 = 1 << iota
	flagReentrant
	flagExact   // the deadline was chosen by the program, so it is kept to the microsecond
	flagLarge   // the argument comes in a frame of its own, when it is asked for or with flagPushed
	flagBody    // this is that frame
	flagOfTurn  // of a durable kind: a task or a grain made the call, and may make it again on another node
	flagKeyed   // the program gave the call a key
	flagBound   // the call says where its grain is to be
	flagSeeks   // of a stateless kind: a node without room for a worker may refuse it, and name one that has
	flagPushed  // with flagLarge: the argument is on its way, and need not be asked for
	flagFirst   // with flagKeyed: the call says when it was first made
	flagMessage // the call delivers a message of a durable grain
)

// Outcomes of a call.
const (
	statusValue byte = iota
	statusError
	statusMoved // it did not run; the grain, or room for a worker, is at the place that follows, or nowhere known
	statusWant  // send the argument; the outcome follows later
)

// callHead is a KindCall without its argument.
type callHead struct {
	flags  uint32
	slot   uint64 // the caller's number for the call
	scope  uint32 // the caller's turn
	method uint32 // as the target numbers it
	to     string // the key, when it is sent
	key    []byte // the same, when it was read: the frame's own
	token  graindir.Token
	left   uint64       // nanoseconds until the deadline, 0 for none
	seq    uint64       // of the submission in its turn: the call's id
	named  string       // the program's key for the call, with flagKeyed
	first  int64        // when it was first made, in milliseconds since 1970, with flagFirst
	sent   *outbox.Sent // the message that it delivers, with flagMessage
}

func (h *callHead) append(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(h.flags))
	dst = wire.AppendUvarint(dst, h.slot)
	if h.flags&flagBody != 0 {
		return dst
	}
	dst = wire.AppendUvarint(dst, uint64(h.scope))
	dst = wire.AppendUvarint(dst, uint64(h.method))
	dst = wire.AppendBytes(dst, h.to)
	dst = wire.AppendStamp(dst, h.token)
	dst = wire.AppendUvarint(dst, h.left)
	dst = wire.AppendUvarint(dst, h.seq)
	if h.flags&flagKeyed != 0 {
		dst = wire.AppendBytes(dst, h.named)
	}
	if h.flags&flagFirst != 0 {
		dst = wire.AppendUvarint(dst, uint64(h.first))
	}
	if h.flags&flagMessage != 0 {
		dst = wire.AppendUvarint(wire.AppendUvarint(wire.AppendID(dst, h.sent.From), h.sent.Number), h.sent.Before)
	}
	return dst
}

func (h *callHead) read(r *wire.Reader) error {
	h.flags, h.slot = r.Uint32(), r.Uvarint()
	if h.flags&flagBody != 0 {
		return r.Err()
	}
	h.scope, h.method, h.key = r.Uint32(), r.Uint32(), r.Bytes()
	h.token = wire.ReadStamp[graindir.Token](r)
	h.left, h.seq = r.Uvarint(), r.Uvarint()
	if h.flags&flagKeyed != 0 {
		h.named = r.String()
	}
	if h.flags&flagFirst != 0 {
		h.first = int64(r.Uvarint())
	}
	if h.flags&flagMessage != 0 {
		h.sent = &outbox.Sent{From: r.ID(), Number: r.Uvarint(), Before: r.Uvarint()}
	}
	return r.Err()
}

func appendPlace(dst []byte, p graindir.Place) []byte {
	return wire.AppendStamp(wire.AppendNode(dst, p.NodeKey), p.Token)
}

func readPlace(r *wire.Reader) graindir.Place {
	at := wire.ReadNode(r)
	return graindir.Place{NodeKey: at, Token: wire.ReadStamp[graindir.Token](r)}
}

// appendAnswer begins a KindCallResult.
func appendAnswer(dst []byte, slot uint64, status byte) []byte {
	return append(wire.AppendUvarint(dst, slot), status)
}

// buffers are used again for frames that were sent: Peer.Send copies what it is given.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// keptBuffer is the size above which a buffer is left to the garbage collector.
const keptBuffer = 64 << 10

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// byDriver reports whether a driver makes the call, and its reply waits for that.
func (c *call) byDriver() bool {
	return c.Future.Up().Kind() == core.TurnRoot && !c.isReadOnly() && c.named() == ""
}

// prepare fills the record. w is the call itself, or the larger record that it is part of.
func (c *call) prepare(w core.Work, m *method, e *Engine, t *core.Turn) {
	c.method, c.mail.msg = m, c
	c.Future.Init(w, t, t.Next(), m.value.Gated())
	switch {
	case m.opts.NoLimit:
	case m.opts.Deadline != 0:
		c.until = core.After(e.cfg.Now(), m.opts.Deadline)
	default:
		c.until = e.cfg.Rough() + int64(defaultDeadline)
	}
}
