package core

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// TurnKind says what a turn runs.
type TurnKind uint8

// The kinds of turns.
const (
	TurnRoot  TurnKind = iota // a driver: system.Main, Node.Context
	TurnTask                  // a running task
	TurnGrain                 // one call on a grain
)

// Turn is what submissions come from: a driver, a running task, or one call on a grain. It numbers them,
// hands cancellation and deadline down, and knows what it waits for. A task that submits nothing and is not
// cancelled never gets one.
//
// A context derived from a turn's own (WithCancel, WithTimeout, WithValue of a declared key) stands for a derived
// Turn, made once per context: it shares the base of its turn and adds its own cancellation.
type Turn struct {
	*base
	job      *Job
	id       TaskID
	class    Class
	ended    atomic.Bool
	trunk    *Turn                // of a branch: the turn it branches from
	up       atomic.Pointer[Turn] // cancelled with it; shortened past turns that ended (above)
	outer    context.Context      // of a root turn: the caller's context
	deadline int64                // on the runtime's clock, 0 for none
	limit    time.Duration        // how long before the deadline the work was submitted, 0 where that is not known
	values   *Values
	cause    atomic.Pointer[endCause]
	last     atomic.Pointer[Turn] // the derived turn used last

	mu         sync.Mutex // guards the fields below, and pins and rnd of base
	watchers   *Watcher
	link       *Watcher // this turn's own registration with linked
	linked     *Turn
	innerWatch *Watcher
	inner      context.Context // backs Done for user code; nil until asked for
	stop       context.CancelCauseFunc
	alarm      Alarm
	derived    map[derivedKey]*Turn
	done       <-chan struct{} // of a derived turn: the channel of its context
}

type endCause struct{ err error }

type derivedKey struct {
	done   <-chan struct{}
	values *Values
}

// TurnSpec is what an engine says of a turn it makes.
type TurnSpec struct {
	Kind     TurnKind
	Name     string
	ID       TaskID
	Up       *Turn
	Deadline int64
	Limit    time.Duration // what Deadline came from, for the error; 0 where that is not known
	Attempt  int
	Redraws  uint32 // see Turn.Redraws
	Attached any
	Slot     *CPUSlot // the CPU that it gives back while it waits, or nil
	Class    *Class   // nil: that of Up
}

// NewTurn makes the turn of work submitted by s.Up.
func NewTurn(s TurnSpec) *Turn {
	up := s.Up
	t := newBase(&base{
		turn: Turn{job: up.job, id: s.ID, deadline: s.Deadline, limit: s.Limit, values: up.values, class: up.class},
		kind: s.Kind, name: s.Name, attempt: s.Attempt, redraws: s.Redraws, attached: s.Attached,
	})
	if s.Class != nil {
		t.class = *s.Class
	}
	t.up.Store(up)
	t.slot.Store(s.Slot)
	return t
}

// NewRoot makes the turn of a driver. outer is the caller's context; up, which may be nil, is cancelled with the node.
func NewRoot(job *Job, outer context.Context, up *Turn, id TaskID) *Turn {
	t := newBase(&base{turn: Turn{job: job, id: id, outer: outer}, kind: TurnRoot, name: "driver"})
	t.values, _ = outer.Value(valuesKey{}).(*Values)
	if job.Span != nil {
		t.values = traced(outer, t, t.values)
	}
	t.up.Store(up)
	if outer.Done() != nil {
		context.AfterFunc(outer, func() { t.cancel(endError(context.Cause(outer))) })
	}
	return t
}

// RemoteSpec describes a turn of another node.
type RemoteSpec struct {
	Job      *Job // as this node knows it: Node, Runtime and Top are this node's
	Name     string
	ID       TaskID
	Attempt  int
	Deadline int64 // on this node's clock, 0 for none
	Values   *Values
	Callers  []TaskID
	Class    Class
}

// NewRemote makes the turn that stands for one of another node, above the work which that sent here. It ends by
// Cancel, or with the node.
func NewRemote(s RemoteSpec) *Turn {
	t := newBase(&base{
		turn: Turn{job: s.Job, id: s.ID, deadline: s.Deadline, values: s.Values, class: s.Class},
		kind: TurnRoot, name: s.Name, attempt: s.Attempt, callers: s.Callers, remote: true,
	})
	t.up.Store(s.Job.Top)
	return t
}

type (
	turnKey   struct{}
	valuesKey struct{}
	futureKey struct{}
)

// TurnSource is a context that is a turn's own.
type TurnSource interface{ Turn() *Turn }

// TurnOf finds the turn that ctx belongs to. own is true when ctx is the turn's own context, so that everything that
// ends it ends the turn. It fails with ErrNoRuntime, or with the reason ctx has ended.
func TurnOf(ctx context.Context) (t *Turn, own bool, err error) {
	if s, ok := ctx.(TurnSource); ok {
		return s.Turn(), true, nil
	}
	if ctx == nil {
		return nil, false, ErrNoRuntime
	}
	base, _ := ctx.Value(turnKey{}).(*Turn)
	if base == nil {
		return nil, false, ErrNoRuntime
	}
	return base.derive(ctx), false, nil
}

// derive returns the turn for a context derived from t's own.
func (t *Turn) derive(ctx context.Context) *Turn {
	done := ctx.Done()
	values, _ := ctx.Value(valuesKey{}).(*Values)
	if t.job.Span != nil {
		values = traced(ctx, t, values)
	}
	same := done == nil || done == t.ownDone()
	if same && values == t.values {
		return t
	}
	if d := t.last.Load(); d != nil && d.done == done && d.values == values {
		return d
	}
	up := t
	if !same {
		up = t.deriveEnd(ctx, done)
	}
	d := up
	if values != t.values {
		// It is in no table: values end with their context, and a table of them would only grow.
		d = &Turn{base: t.base, job: t.job, id: t.id, class: t.class, values: values, done: done}
		d.up.Store(up)
		d.ended.Store(true) // it has no end of its own, so what looks up from below passes it
	}
	t.last.Store(d)
	return d
}

// deriveEnd returns the derived turn that ends with ctx, made once per channel.
func (t *Turn) deriveEnd(ctx context.Context, done <-chan struct{}) *Turn {
	key := derivedKey{done: done}
	t.mu.Lock()
	known := t.derived[key]
	t.mu.Unlock()
	if known != nil {
		return known
	}
	d := &Turn{base: t.base, job: t.job, id: t.id, class: t.class, values: t.values, done: done}
	if at, ok := ctx.Deadline(); ok {
		d.deadline = After(t.job.Runtime.Now(), time.Until(at))
	}
	d.up.Store(t)
	t.mu.Lock()
	if known = t.derived[key]; known != nil {
		t.mu.Unlock()
		return known
	}
	if t.derived == nil {
		t.derived = map[derivedKey]*Turn{}
	}
	t.derived[key] = d
	t.mu.Unlock()
	// One registration per context, none per task. Without the lock: a context of the program's own type asks that of t, which takes it.
	context.AfterFunc(ctx, func() { t.derivedEnded(key, d, context.Cause(ctx)) })
	return d
}

func (t *Turn) derivedEnded(key derivedKey, d *Turn, cause error) {
	t.mu.Lock()
	delete(t.derived, key)
	t.mu.Unlock()
	t.last.CompareAndSwap(d, nil)
	// A context derived from a task's own ends with the task; what the task submitted under it goes on, as it does
	// when submitted with the task's own context.
	if cause == errTurnEnded {
		d.ended.Store(true)
		return
	}
	d.cancel(endError(cause))
}

// Job returns what all turns of the run share.
func (t *Turn) Job() *Job { return t.job }

// Runtime returns the system that runs the turn.
func (t *Turn) Runtime() Runtime { return t.job.Runtime }

// Base returns the turn itself, or the one it is derived from.
func (t *Turn) Base() *Turn { return &t.base.turn }

// ID is the id of the work the turn runs.
func (t *Turn) ID() TaskID { return t.id }

// Deadline is the turn's own deadline on the runtime's clock, 0 for none.
func (t *Turn) Deadline() int64 { return t.deadline }

// RunID names the turn among those of all runs, as Future.RunID does a submission, and is no id of one.
func (t *Turn) RunID() TaskID { return t.id.derive(ofTurnKey, t.job.Run) }

// Remote reports whether the turn stands for one of another node.
func (t *Turn) Remote() bool { return t.whole().remote }

// Ended reports whether the turn has returned.
func (t *Turn) Ended() bool { return t.ended.Load() }

// Values are the declared request values the turn carries.
func (t *Turn) Values() *Values { return t.values }

// detachedKey marks the derived turn that nothing above cancels but the node.
var detachedKey = derivedKey{values: &Values{name: "detached"}}

// Detached returns the turn under which work outlives t's cancellation: it numbers with t and ends with the node.
func (t *Turn) Detached() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.derived[detachedKey]
	if d == nil {
		d = &Turn{base: t.base, job: t.job, id: t.id, class: t.class, values: t.values}
		d.up.Store(t.job.Top)
		if t.derived == nil {
			t.derived = map[derivedKey]*Turn{}
		}
		t.derived[detachedKey] = d
	}
	return d
}

// Class is that of the work that the turn submits.
func (t *Turn) Class() Class { return t.class }

// Until returns the earliest deadline of the turn and of everything above it, on the runtime's clock; 0 for none.
func (t *Turn) Until() (at int64) {
	for s := t; s != nil; s = s.above() {
		if s.deadline != 0 && (at == 0 || s.deadline < at) {
			at = s.deadline
		}
		if s.outer != nil {
			if d, ok := s.outer.Deadline(); ok {
				if o := After(t.job.Runtime.Now(), time.Until(d)); at == 0 || o < at {
					at = o
				}
			}
		}
	}
	return at
}

// watchFar has b, which t waits for, looked at by all nodes while it lasts. It returns nil where no cycle is possible:
// in each there is the turn of a grain, so it is enough that those look which are in one.
func (t *Turn) watchFar(b *Blocked) *probe {
	if !t.inGrain() {
		return nil
	}
	p := &probe{turn: t, block: b, pause: firstProbe}
	p.alarm.Ring = p.ring
	p.set()
	return p
}

// Callers lists the turns of grains that t is, or was called under, the nearest first: those of this node that have
// not ended, and those of other nodes, whose state is not known here.
func (t *Turn) Callers() (ids []TaskID) {
	for s := t; s != nil && len(ids) < maxCallers; s = s.above() {
		switch {
		case s != s.Base():
		case s.kind == TurnGrain && s.trunk == nil && !s.ended.Load():
			ids = append(ids, s.id)
		default:
			ids = append(ids, s.callers...)
		}
	}
	return ids[:min(len(ids), maxCallers)]
}

// CalledUnder reports whether x, the turn of a grain, is among the Callers of t that are known over another node.
func (t *Turn) CalledUnder(x *Turn) bool {
	for s := t; s != nil; s = s.above() {
		if s == s.Base() && slices.Contains(s.callers, x.id) {
			return true
		}
	}
	return false
}

// inGrain reports whether t is the turn of a grain, or was called under one.
func (t *Turn) inGrain() bool {
	for s := t; s != nil; s = s.above() {
		if s.kind == TurnGrain || len(s.callers) > 0 {
			return true
		}
	}
	return false
}

// FromElsewhere reports whether turns of grains on other nodes are among the Callers of t.
func (t *Turn) FromElsewhere() bool {
	for s := t; s != nil; s = s.above() {
		if s == s.Base() && len(s.callers) > 0 {
			return true
		}
	}
	return false
}

// Under reports whether t is the turn of work with one of the ids, or below it.
func Under(t *Turn, ids map[TaskID]bool) bool {
	for ; t != nil; t = t.above() {
		if ids[t.id] {
			return true
		}
	}
	return false
}

// watchUnseen arranges a report when the future is collected and its failure was never read. Only failures pay for
// the cleanup.
func (t *Turn) watchUnseen(c *Future, f *failure) {
	if t.job.Unseen == nil || f.phase == phaseCancelled {
		return
	}
	tell, name := t.job.Unseen, c.work.Name()
	runtime.AddCleanup(c, func(f *failure) {
		if !f.seen.Load() {
			tell(name, f.err)
		}
	}, f)
}

// Cancellation is pulled, not pushed. A task registers nowhere when it is submitted: it points at the turn that
// submitted it. A goroutine that starts it, asks for its Err or waits for it looks up that chain. Only what waits is
// registered (Watch), and a turn is registered with the one above it only while something below it watches, so that a
// chain of n blocked turns costs n registrations and not n squared. Locks are taken from a turn to the one above it;
// cancel runs callbacks without any.

// Watcher is one registration for the end of a turn.
type Watcher struct {
	prev, next *Watcher
	on         *Turn
	fire       func()
}

// errTurnEnded is the cause of a turn's own context after the turn returned, so that goroutines it left behind end.
var errTurnEnded = errors.New("the task or turn of this context has returned")

// Watch arranges that fire is called once when t is cancelled; it must not block. It returns false when t is cancelled
// already, and then does not call fire.
func (t *Turn) Watch(w *Watcher, fire func()) bool {
	if t.Cancelled() != nil {
		return false
	}
	w.fire = fire
	return t.watch(w)
}

func (t *Turn) watch(w *Watcher) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause.Load() != nil {
		return false
	}
	if t.watchers == nil && !t.linkLocked() {
		return false
	}
	w.on, w.prev, w.next = t, nil, t.watchers
	if t.watchers != nil {
		t.watchers.prev = w
	}
	t.watchers = w
	return true
}

// linkLocked registers t with the turn above and arms its deadline, because t has a watcher now.
func (t *Turn) linkLocked() bool {
	if up := t.above(); up != nil {
		// A new Watcher each time: the one before may still be on its way through up's cancel.
		link := &Watcher{fire: func() { t.cancel(up.Cancelled()) }}
		if !up.watch(link) {
			t.cause.CompareAndSwap(nil, &endCause{endError(up.Cancelled())})
			return false
		}
		t.link, t.linked = link, up
	}
	if t.deadline != 0 && t == t.Base() {
		t.alarm.At, t.alarm.Ring = t.deadline, t.expire
		t.job.Runtime.SetAlarm(&t.alarm)
	}
	return true
}

// Unwatch takes w back. fire may be under way when it returns.
func (t *Turn) Unwatch(w *Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.on != t {
		return // fired, or never registered
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		t.watchers = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.on, w.prev, w.next = nil, nil, nil
	if t.watchers == nil {
		t.unlinkLocked()
	}
}

func (t *Turn) unlinkLocked() {
	if t.linked != nil {
		t.linked.Unwatch(t.link)
		t.link, t.linked = nil, nil
	}
	if t.alarm.Ring != nil {
		t.job.Runtime.ClearAlarm(&t.alarm)
	}
}

// Cancel ends the turn and everything it submitted.
func (t *Turn) Cancel(cause error) { t.cancel(endError(cause)) }

func (t *Turn) cancel(err error) {
	t.mu.Lock()
	if !t.cause.CompareAndSwap(nil, &endCause{err}) {
		t.mu.Unlock()
		return
	}
	list := t.watchers
	t.watchers = nil
	for w := list; w != nil; w = w.next {
		w.on = nil
	}
	t.unlinkLocked()
	stop := t.stop
	t.mu.Unlock()
	if stop != nil {
		stop(err)
	}
	for list != nil {
		next := list.next
		list.prev, list.next = nil, nil
		list.fire()
		list = next
	}
}

func (t *Turn) expire() {
	if t.job.Runtime.Now() >= t.deadline {
		t.cancel(&deadlineError{t.name, t.limit})
	}
}

// Cancelled returns why the turn ended early, nil while it may go on. It looks at every turn above.
func (t *Turn) Cancelled() error {
	var now int64
	for ; t != nil; t = t.above() {
		if c := t.cause.Load(); c != nil {
			return c.err
		}
		// The caller's context tells the turn of its end on a goroutine, which may not have run yet.
		if t.outer != nil && t.outer.Err() != nil {
			t.cancel(endError(context.Cause(t.outer)))
			return t.cause.Load().err
		}
		if t.deadline != 0 {
			if now == 0 {
				now = t.job.Runtime.Now()
			}
			if now >= t.deadline {
				return &deadlineError{t.name, t.limit}
			}
		}
	}
	return nil
}

// above returns the next turn up that can still be cancelled. A turn that has returned cannot, so the chain is
// shortened past it: a task that submits its successor and returns, for ever, leaves no chain behind. One that has a
// deadline stays, since its submissions inherit that, and it ends the chain.
func (t *Turn) above() *Turn {
	for {
		up := t.up.Load()
		if up == nil || !up.over() || up.cause.Load() != nil || up.deadline != 0 {
			return up
		}
		t.up.CompareAndSwap(up, up.up.Load())
	}
}

// over reports whether the turn, or the one it is derived or branched from, has returned: contexts derived from a
// task's own end with it.
func (t *Turn) over() bool {
	return t.ended.Load() || t.Base().ended.Load() || (t.trunk != nil && t.trunk.over())
}

// End marks the turn as returned: its context ends, its submissions go on.
func (t *Turn) End() {
	t.mu.Lock()
	stop, watch, pins := t.stop, t.innerWatch, t.pins
	t.innerWatch, t.pins = nil, nil
	t.ended.Store(true) // under mu: innerContext sees that, or End sees what innerContext has made
	t.mu.Unlock()
	if watch != nil {
		t.Unwatch(watch)
	}
	for _, p := range pins {
		p.unpin()
	}
	if stop != nil {
		stop(errTurnEnded)
	}
}

// ownDone returns the Done channel of the turn's own context if it has one.
func (t *Turn) ownDone() <-chan struct{} {
	if t.trunk != nil {
		return t.outer.Done()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		return nil
	}
	return t.inner.Done()
}

// endless returns the turn above a driver's whose caller's context never ends: such a driver ends with the node alone,
// shares the node's inner context, and so leaves nothing behind, however many of them there were. Nil for any other
// turn.
func (t *Turn) endless() *Turn {
	if t.outer == nil || t.outer.Done() != nil {
		return nil
	}
	return t.up.Load()
}

// innerContext backs Done, Cause and AfterFunc of the turn's context by one of the standard library's, which then
// costs no goroutine to derive from. A driver's is derived from the caller's, so that it ends with either.
func (t *Turn) innerContext() context.Context {
	if t.trunk != nil {
		return t.outer
	}
	if up := t.endless(); up != nil {
		shared := up.innerContext()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.inner = shared // for ownDone; it is the same one each time
		return shared
	}
	t.mu.Lock()
	if t.inner != nil {
		defer t.mu.Unlock()
		return t.inner
	}
	outer := t.outer
	if outer == nil {
		outer = context.Background()
	}
	t.inner, t.stop = context.WithCancelCause(outer)
	inner, stop := t.inner, t.stop
	w := new(Watcher)
	t.innerWatch = w
	t.mu.Unlock()
	switch {
	case t.ended.Load():
		stop(errTurnEnded)
	case !t.Watch(w, func() {}): // watched, so that a cancel above reaches t.cancel, which calls stop
		stop(t.Cancelled())
	case t.ended.Load(): // End may have taken w back before it was there
		t.Unwatch(w)
	}
	return inner
}
