package core

import (
	"context"
	"math/rand/v2"
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
// Turn, made once per context: it shares the sequence of its base and adds its own cancellation.
type Turn struct {
	job           *Job
	kind          TurnKind
	class         Class
	name          string
	id            TaskID
	base          *Turn                // the turn itself, or the one this is derived from
	trunk         *Turn                // of a branch: the turn it branches from
	callers       []TaskID             // of a turn of another node: Callers there
	up            atomic.Pointer[Turn] // cancelled with it; shortened past turns that ended (scope.go)
	outer         context.Context      // of a root turn: the caller's context
	deadline      int64                // on the runtime's clock, 0 for none
	limit         time.Duration        // how long before the deadline the work was submitted, 0 where that is not known
	values        *Values
	attempt       int
	redraws       uint32                   // attempts that followed a failure of the program's, which RetryIf accepted: each has random numbers of its own
	slot          atomic.Pointer[CPUSlot]  // of base: the CPU it runs on
	attached      any                      // of base: what the engine gave with the turn: the activation of a grain turn
	attachedLater atomic.Pointer[any]      // of base: what Attach stored, which replaces attached
	recipe        atomic.Pointer[any]      // of a task's turn: how its value can be made again (rebuild.go)
	finals        atomic.Pointer[finals]   // of base: what waits until it cannot run again (final.go)
	remote        bool                     // it stands for a turn of another node
	effects       atomic.Pointer[Effect]   // of base: SetEffects
	devices       atomic.Pointer[[]string] // of base: SetDevices

	seq    atomic.Uint64 // of base: submissions so far
	racy   atomic.Bool   // of base: goroutines submitted at the same time, so the order is not the program's
	ended  atomic.Bool
	failed atomic.Pointer[failure] // outcome of the future this turn computes
	block  atomic.Pointer[Blocked] // of base: what it waits for
	cause  atomic.Pointer[endCause]
	last   atomic.Pointer[Turn] // the derived turn used last

	mu         sync.Mutex // guards the fields below
	watchers   *Watcher
	link       *Watcher // this turn's own registration with linked
	linked     *Turn
	innerWatch *Watcher
	inner      context.Context // backs Done for user code; nil until asked for
	stop       context.CancelCauseFunc
	alarm      Alarm
	derived    map[derivedKey]*Turn
	pins       []*Future
	rnd        *rand.Rand
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
	t := &Turn{
		job: s.Up.job, kind: s.Kind, name: s.Name, id: s.ID, deadline: s.Deadline, limit: s.Limit, values: s.Up.values,
		attempt: s.Attempt, redraws: s.Redraws, attached: s.Attached, class: s.Up.class,
	}
	if s.Class != nil {
		t.class = *s.Class
	}
	t.base = t
	t.up.Store(s.Up)
	t.slot.Store(s.Slot)
	return t
}

// NewRoot makes the turn of a driver. outer is the caller's context; up, which may be nil, is cancelled with the node.
func NewRoot(job *Job, outer context.Context, up *Turn, id TaskID) *Turn {
	t := &Turn{job: job, kind: TurnRoot, name: "driver", id: id, outer: outer}
	t.values, _ = outer.Value(valuesKey{}).(*Values)
	t.base = t
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
	t := &Turn{
		job: s.Job, kind: TurnRoot, name: s.Name, id: s.ID, deadline: s.Deadline, values: s.Values, attempt: s.Attempt,
		callers: s.Callers, class: s.Class, remote: true,
	}
	t.base = t
	t.up.Store(s.Job.Top)
	return t
}

// SetKind makes t the turn of a call on that activation.
func (t *Turn) SetKind(k TurnKind, activation any) { t.kind, t.attached = k, activation }

// Attach makes x what Attached returns, of a task's turn. Other goroutines may call Attached meanwhile.
func (t *Turn) Attach(x any) { t.base.attachedLater.Store(&x) }

// Detach ends Attach: the turn keeps nothing of what the engine gave.
func (t *Turn) Detach() { t.base.attachedLater.Store(&nothing) }

var nothing any

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
		d = &Turn{
			job: t.job, kind: t.kind, name: t.name, id: t.id, base: t.base, values: values, attempt: t.attempt, redraws: t.redraws, class: t.class, done: done,
		}
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
	defer t.mu.Unlock()
	d := t.derived[key]
	if d == nil {
		d = &Turn{
			job: t.job, kind: t.kind, name: t.name, id: t.id, base: t.base, values: t.values, attempt: t.attempt, redraws: t.redraws, class: t.class, done: done,
		}
		if at, ok := ctx.Deadline(); ok {
			d.deadline = After(t.job.Runtime.Now(), time.Until(at))
		}
		d.up.Store(t)
		if t.derived == nil {
			t.derived = map[derivedKey]*Turn{}
		}
		t.derived[key] = d
		// One registration per context, none per task.
		context.AfterFunc(ctx, func() { t.derivedEnded(key, d, context.Cause(ctx)) })
	}
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

// Next takes the next number of the turn's sequence.
func (t *Turn) Next() uint64 {
	b := t.base
	n := b.seq.Load()
	if b.seq.CompareAndSwap(n, n+1) {
		return n
	}
	b.racy.Store(true)
	return b.seq.Add(1) - 1
}

// NextN takes n numbers and returns the first.
func (t *Turn) NextN(n int) uint64 { return t.base.seq.Add(uint64(n)) - uint64(n) }

// Submitted is how many submissions t has made.
func Submitted(t *Turn) uint64 { return t.base.seq.Load() }

// Job returns what all turns of the run share.
func (t *Turn) Job() *Job { return t.job }

// Runtime returns the system that runs the turn.
func (t *Turn) Runtime() Runtime { return t.job.Runtime }

// Base returns the turn itself, or the one it is derived from.
func (t *Turn) Base() *Turn { return t.base }

// Kind says what the turn runs.
func (t *Turn) Kind() TurnKind { return t.base.kind }

// ID is the id of the work the turn runs.
func (t *Turn) ID() TaskID { return t.id }

// Name is the task's name, or kind/key.method.
func (t *Turn) Name() string { return t.name }

// Attached is what an engine keeps with the turn: the activation of a grain turn, the dependencies of a task's.
func (t *Turn) Attached() any {
	if x := t.base.attachedLater.Load(); x != nil {
		return *x
	}
	return t.base.attached
}

// Slot is the CPU the turn runs on, nil for one that holds none.
func (t *Turn) Slot() *CPUSlot { return t.base.slot.Load() }

// Deadline is the turn's own deadline on the runtime's clock, 0 for none.
func (t *Turn) Deadline() int64 { return t.deadline }

// RunID names the turn among those of all runs, as Future.RunID does a submission, and is no id of one.
func (t *Turn) RunID() TaskID { return t.id.derive(ofTurnKey, t.job.Run) }

// Redraws counts the attempts before this one that failed by the program's fault. One after a lost node draws the same
// random numbers as that.
func (t *Turn) Redraws() uint32 { return t.base.redraws }

// AttemptOf is raysys.Attempt. A call of a grain with Retries is several, below a turn that has the number and their name.
func AttemptOf(ctx context.Context) int {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return 0
	}
	if up := t.base.up.Load(); t.kind == TurnGrain && up != nil && up.kind != TurnGrain && up.name == t.name {
		return max(up.Attempt(), 1)
	}
	return max(t.Attempt(), 1)
}

// Attempt counts from 1.
func (t *Turn) Attempt() int { return t.base.attempt }

// Deterministic reports whether the turn's submissions were made in program order: false once two goroutines
// submitted at the same time on one context without Branch.
func (t *Turn) Deterministic() bool { return !t.base.racy.Load() }

// Failed reports whether the work of the turn has failed, or was given up.
func (t *Turn) Failed() bool { return t.base.failed.Load() != nil }

// Remote reports whether the turn stands for one of another node.
func (t *Turn) Remote() bool { return t.whole().remote }

// Ended reports whether the turn has returned.
func (t *Turn) Ended() bool { return t.ended.Load() }

// Values are the declared request values the turn carries.
func (t *Turn) Values() *Values { return t.values }

// pinned reports whether the turn holds c for reading after a Release.
func (t *Turn) pinned(c *Future) bool {
	b := t.base
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pins {
		if p == c {
			return true
		}
	}
	return false
}

// Pin keeps the futures readable for this turn although the program releases them, until the turn ends.
func (t *Turn) Pin(futures []*Future) {
	b := t.base
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range futures {
		if c.valueType() != nil {
			c.pin()
			b.pins = append(b.pins, c)
		}
	}
}

// detachedKey marks the derived turn that nothing above cancels but the node.
var detachedKey = derivedKey{values: &Values{name: "detached"}}

// Detached returns the turn under which work outlives t's cancellation: it numbers with t and ends with the node.
func (t *Turn) Detached() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.derived[detachedKey]
	if d == nil {
		d = &Turn{job: t.job, kind: t.kind, name: t.name, id: t.id, base: t.base, values: t.values, attempt: t.attempt, class: t.class}
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

// innerValue answers the standard library's own look-ups (the enclosing cancelCtx), so that context.WithCancel on a
// task's context starts no goroutine and context.Cause works. A turn that has ended gets its standard context now if
// it had none before; an end that was only pulled so far is passed on to it, since Cause must follow Err.
func (t *Turn) innerValue(key any) any {
	t.mu.Lock()
	inner, stop := t.inner, t.stop
	t.mu.Unlock()
	if err := t.Cancelled(); err != nil && inner != nil {
		t.cancel(err)
		if stop != nil { // the one whose cancel came first may not have called it yet
			stop(err)
		} else {
			t.endless().innerValue(key)
		}
	} else if inner == nil && (err != nil || t.ended.Load()) {
		inner = t.innerContext()
	}
	if inner == nil {
		return nil
	}
	return inner.Value(key)
}

func (t *Turn) contextErr() error {
	if t.ended.Load() {
		return context.Canceled
	}
	return contextErr(t.Cancelled())
}

func (t *Turn) deadlineTime() (time.Time, bool) {
	at := t.Until()
	if at == 0 {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(at - t.job.Runtime.Now())), true
}

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

// SetBlocked records that t waits for c while it runs c in place, and returns what undoes it. For engines. A grain's
// turn lets others in meanwhile, as it does when it parks: c may call the grain.
func (t *Turn) SetBlocked(b *Blocked, c *Future) (undo *Blocked) {
	b.on, b.need = []*Future{c}, 1
	undo = t.base.block.Swap(b)
	if t.base.kind == TurnGrain {
		t.job.Runtime.Block(t.base)
	}
	return undo
}

// RestoreBlocked ends SetBlocked.
func (t *Turn) RestoreBlocked(prev *Blocked) {
	if t.base.kind == TurnGrain {
		t.job.Runtime.Unblock(t.base)
	}
	t.base.block.Store(prev)
}

// Devices are the UUIDs of the devices that the turn's work holds.
func (t *Turn) Devices() []string {
	b := t.base
	if list := b.devices.Load(); list != nil {
		return append([]string(nil), *list...)
	}
	if h, ok := b.attached.(Holder); ok {
		return h.Devices()
	}
	return nil
}

// SetDevices is called before the function of a task that holds devices.
func (t *Turn) SetDevices(list []string) { t.base.devices.Store(&list) }

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
		switch b := s.base; {
		case b.kind == TurnGrain && s == b && s.trunk == nil && !b.ended.Load():
			ids = append(ids, b.id)
		case s == b:
			ids = append(ids, b.callers...)
		}
	}
	return ids[:min(len(ids), maxCallers)]
}

// CalledUnder reports whether x, the turn of a grain, is among the Callers of t that are known over another node.
func (t *Turn) CalledUnder(x *Turn) bool {
	for s := t; s != nil; s = s.above() {
		if s == s.base && slices.Contains(s.callers, x.id) {
			return true
		}
	}
	return false
}

// inGrain reports whether t is the turn of a grain, or was called under one.
func (t *Turn) inGrain() bool {
	for s := t; s != nil; s = s.above() {
		if s.base.kind == TurnGrain || len(s.base.callers) > 0 {
			return true
		}
	}
	return false
}

// IsBlocked reports whether the turn waits.
func (t *Turn) IsBlocked() bool { return t.base.block.Load() != nil }

// FromElsewhere reports whether turns of grains on other nodes are among the Callers of t.
func (t *Turn) FromElsewhere() bool {
	for s := t; s != nil; s = s.above() {
		if s == s.base && len(s.callers) > 0 {
			return true
		}
	}
	return false
}

// Recipe is the recipe of the value that t computes.
func (t *Turn) Recipe() any {
	if r := t.recipe.Load(); r != nil {
		return *r
	}
	return nil
}

// SetRecipe keeps r for as long as the value that t computes can be asked for.
func (t *Turn) SetRecipe(r any) { t.recipe.Store(&r) }

// SetEffects notes that t, or what it submitted, has done what must not be done twice. Its value is not made again.
func (t *Turn) SetEffects(by *Effect) {
	for t = t.base; t.effects.Load() == nil; t = t.trunk.base {
		t.effects.Store(by)
		if t.trunk == nil {
			return
		}
	}
}

// Effects returns what SetEffects was first called with, nil if it was not called.
func (t *Turn) Effects() *Effect { return t.base.effects.Load() }

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
