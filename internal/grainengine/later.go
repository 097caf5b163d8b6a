package grainengine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/tally"
)

// A method of LaterMethod is given its call, and may keep it: then the call settles after the turn.
//
//	turn: method ──► Settle, Fail, or an error ─────────────────────────────────► the call settles
//	          └─► nil: kept ──► Settle, Fail: of a later turn or any goroutine ──► the call settles
//	                      ├───► deadline, cancel, the caller's node ─────────────► it has; Settle returns why
//	                      └───► drain, end of the activation ──► ErrUnsettled; an idempotent call is made again
//
// One of these decides, under Later.mu, and then writes the value or the failure. So no two goroutines write the value,
// and none writes it once the call may be made again with the same record.

// Later is what grains.Later is made of.
type Later struct {
	call   *call
	act    *activation
	waiter core.Waiter
	above  core.Watcher // of the caller's turn
	kept   bool         // the method has returned; guarded by laters.mu

	mu    sync.Mutex // guards the rest
	state laterState
	cause error      // of laterEnded: why
	turn  *core.Turn // that of Context; nil until it is asked for
	why   func() string
}

type laterState uint8

const (
	laterOpen laterState = iota
	laterSettled
	laterEnded
)

// errKept is what call.invoke returns of a call that its method keeps, or has settled.
var errKept = errors.New("the method keeps its call")

// laters are the calls of one activation whose methods were given them, nil where there was none yet.
type laters struct {
	count atomic.Int32 // of calls whose methods have returned; written with mu held
	mu    sync.Mutex   // guards the rest
	open  map[*call]*Later
}

// LaterMethod is Method for a function that gives its call to Begin, and returns what Kept returns.
func LaterMethod[G, A, R any](k Kind, name string, isNil bool, fn func(*G, context.Context, A) (R, error)) Func {
	return defineMethod(k, name, isNil, true, fn)
}

// Begin makes l the call that ctx is the context of, or is derived from.
func (l *Later) Begin(ctx context.Context) {
	l.call = callOf(core.FutureIn(ctx))
	l.act = l.call.queuedAt()
	if t := l.call.Future.OwnTurn(); t != nil && t.Attached() != any(l.act) {
		t.Attach(l.act) // the call was made again
	}
	k := l.act.laters.Load()
	if k == nil {
		l.act.laters.CompareAndSwap(nil, &laters{open: map[*call]*Later{}})
		k = l.act.laters.Load()
	}
	k.mu.Lock()
	k.open[l.call] = l
	k.mu.Unlock()
}

// Kept is what a method returns for the error of the program's.
func Kept(err error) error {
	if err == nil {
		return errKept
	}
	return err
}

// AnswerIsCopied reports whether Settle copies what the value holds before it returns, for the call that ctx is the
// context of: the caller is another node, and the answer is encoded when the call settles.
func AnswerIsCopied(ctx context.Context) bool { return callOf(core.FutureIn(ctx)).inbound() != nil }

// Settle is that of grains.Later[R].
func Settle[R any](l *Later, v R) error {
	if err := l.claim(); err != nil {
		return err
	}
	*(*R)(l.call.Future.ValueAt()) = v
	return l.settle(nil)
}

// Fail is that of grains.Later.
func (l *Later) Fail(err error) error {
	if claimed := l.claim(); claimed != nil {
		return claimed
	}
	if err == nil {
		err = errors.New("Fail was given no error")
	}
	return l.settle(l.call.taskError(core.Sound(err), nil))
}

// Because is that of grains.Later.
func (l *Later) Because(why func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
}

// because returns why the call waits, empty where nobody has said so.
func (l *Later) because() string {
	l.mu.Lock()
	why := l.why
	l.mu.Unlock()
	if why == nil {
		return ""
	}
	return why()
}

// claim gives the caller the right to settle the call, or says why nobody has it any more.
func (l *Later) claim() error {
	if l.call == nil {
		return fmt.Errorf("%w: the zero Later: a method of grains.LaterMethod is given one", raysys.ErrInvalidRef)
	}
	l.mu.Lock()
	t := l.turn
	if l.state != laterOpen {
		t = nil
	}
	l.mu.Unlock()
	// Its Context may show that it is over a moment before the call does. The look may be what ends the caller's turn, and with it this call, in Resolved:
	// so it is outside of mu.
	if over := t.Cancelled(); over != nil {
		l.call.Future.Cancel(over)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == laterSettled:
		return fmt.Errorf("%s: %w", l.call.Name(), ErrSettled)
	case l.state == laterOpen && l.call.Future.Settled():
		l.state, l.cause = laterEnded, l.call.Future.Failure()
	}
	if l.state == laterEnded {
		return l.cause
	}
	l.state = laterSettled
	return nil
}

// settle gives the call, which the caller has claimed, the value that is in its place, or err. It returns why the call
// has another outcome.
func (l *Later) settle(err error) error {
	c := &l.call.Future
	refused := l.act.tenure.mayAnswerLater(l.call)
	switch j := c.Up().Job(); {
	case refused != nil:
	case err == nil:
		refused = l.call.handOverResult()
	case j.Inspect != nil:
		err = j.Inspect.Fail(err)
	}
	if refused != nil {
		err = refused
	}
	first := false
	of := tallyOf(l.act.kind.engine, l.call.method)
	if err == nil {
		of.OK(stripeOf(l.act))
		first = l.call.resolve()
	} else {
		count(of, l.call, tally.Error, err)
		first = c.Fail(err)
		c.Forget()
	}
	if !first {
		refused = c.Failure()
	}
	if refused != nil {
		l.mu.Lock()
		l.state, l.cause = laterEnded, refused
		l.mu.Unlock()
	}
	return refused
}

// mayAnswerLater is mayAnswer for an answer that leaves outside the turn: it may while this node's lease holds.
func (m *tenure) mayAnswerLater(c *call) error {
	if m == nil || len(m.a.kind.def.states) == 0 {
		return nil
	}
	if m.stale.Load() {
		return fmt.Errorf("%s: %w: it is active elsewhere by now, and what this one answers counts for nothing", c.Name(), raysys.ErrMoved)
	}
	if lease := m.a.kind.engine.cfg.States.Lease(); lease != nil {
		return fmt.Errorf("%s: %w", c.Name(), lease)
	}
	return nil
}

// returned says what becomes of a call whose method has ended with err: errKept where the method keeps or has settled
// it, else err. A method that did not begin has ended with err.
func (k *laters) returned(c *call, err error) error {
	if k == nil {
		return err
	}
	k.mu.Lock()
	l := k.open[c]
	k.mu.Unlock()
	if l == nil {
		return err
	}
	l.mu.Lock()
	if err == errKept || l.state == laterSettled {
		l.mu.Unlock()
		return errKept
	}
	l.state, l.cause = laterEnded, err
	l.mu.Unlock()
	l.leave()
	return err
}

// keepCall ends the turn of a call that is kept or was settled. Whoever ends the call from then on may make it again, so
// this is the last that the turn has to do with it.
func (k *laters) keepCall(c *call) {
	c.Future.EndTurn()
	if !c.method.idempotent {
		c.dropArg()
	}
	k.mu.Lock()
	l := k.open[c]
	k.mu.Unlock()
	if !c.Future.Up().Watch(&l.above, l.callerEnded) {
		l.callerEnded()
	}
	if !c.Future.Subscribe(&l.waiter, l) {
		l.Resolved(nil)
		return
	}
	k.mu.Lock()
	if k.open[c] == l { // else it has settled since
		l.kept = true
		k.count.Add(1)
	}
	k.mu.Unlock()
	if l.act.kind.engine.draining.Load() {
		l.abandon("its node drains")
	}
}

// callerEnded cancels the call with the turn that made it: a method that runs would see that.
func (l *Later) callerEnded() { l.call.Future.Cancel(l.call.Future.Up().Cancelled()) }

// Resolved implements core.Resolved: the call has settled.
func (l *Later) Resolved(*core.Waiter) {
	l.mu.Lock()
	ended := l.state != laterSettled
	l.mu.Unlock()
	if ended { // by other than Settle and Fail, which count it
		tallyOf(l.act.kind.engine, l.call.method).Ended(tally.Cancelled, 1)
	}
	l.leave()
	l.call.dropArg()
}

// leave takes the call out of the open ones, and ends its Context.
func (l *Later) leave() {
	a := l.act
	k := a.laters.Load()
	k.mu.Lock()
	delete(k.open, l.call)
	was := l.kept
	if l.kept = false; was {
		k.count.Add(-1)
	}
	idle := was && len(k.open) == 0
	k.mu.Unlock()
	l.call.Future.Up().Unwatch(&l.above)
	l.mu.Lock()
	t, state, cause := l.turn, l.state, l.cause
	l.mu.Unlock()
	endLater(t, state, cause)
	if !was {
		return
	}
	a.used.Store(a.kind.ticks.Load()) // a call that was kept does not count as idle time
	if idle && a.holding != nil && a.holding.hold.Load() != nil {
		a.holding.askEarly()
	}
}

// endLater ends the turn of a Later's Context, nil where there is none, as the call has ended.
func endLater(t *core.Turn, state laterState, cause error) {
	switch {
	case t == nil:
	case state == laterSettled:
		t.End()
	case cause != nil:
		t.Cancel(cause)
	default: // from outside: by its deadline, or it was cancelled
		t.Cancel(t.Cancelled())
	}
}

// Context is that of grains.Later. Its turn is another than that of the method, which ends when that returns.
func (l *Later) Context() context.Context {
	if l.call == nil {
		return context.Background()
	}
	c := &l.call.Future
	l.mu.Lock()
	first := l.turn == nil
	if first {
		l.turn = core.NewTurn(core.TurnSpec{
			Kind: core.TurnGrain, Name: l.call.Name(), ID: c.ID().Child(math.MaxUint64), Up: c.TurnFor(), Attempt: 1,
		})
	}
	t, state, cause := l.turn, l.state, l.cause
	l.mu.Unlock()
	if first && (state != laterOpen || c.Settled()) {
		endLater(t, state, cause)
	}
	return core.HookContext(t)
}

// abandon ends a kept call whose activation cannot settle it any more. An idempotent one of this node is made again
// here, and one of another node by that.
func (l *Later) abandon(why string) {
	c := l.call
	err := fmt.Errorf("%s: %w: %s", c.Name(), ErrUnsettled, why)
	l.mu.Lock()
	if l.state != laterOpen || c.Future.Settled() {
		l.mu.Unlock()
		return
	}
	l.state, l.cause = laterEnded, err
	l.mu.Unlock()
	switch t := c.Future.OwnTurn(); {
	case !c.method.idempotent || c.inbound() != nil || t != nil && t.Attempt() > maxTries:
		c.Future.Fail(err)
	case c.Future.Unsubscribe(&l.waiter): // else it has settled this moment
		l.leave()
		l.act.repeat(c)
	}
}

// abandonCalls ends the calls that the activation keeps.
func (k *laters) abandonCalls(why string) {
	if k == nil {
		return
	}
	var list []*Later
	k.mu.Lock()
	for _, l := range k.open {
		if l.kept {
			list = append(list, l)
		}
	}
	k.mu.Unlock()
	for _, l := range list {
		l.abandon(why)
	}
}

// keptCalls is how many calls the activation keeps.
func (k *laters) keptCalls() int {
	if k == nil {
		return 0
	}
	return int(k.count.Load())
}

// unsettled reports whether a call of another node ended because its grain's activation did, and is to be made again.
func (o *outboundCall) unsettled(err error) bool {
	return errors.Is(err, ErrUnsettled) && !failedBy(err) && o.call.facts().idempotent
}

// Mailbox is how many calls may wait for one activation of the kind, with those that are kept.
func (k Kind) Mailbox() int {
	if k.k == nil {
		return 0 // a definition that is reported
	}
	return k.k.KindOptions.Mailbox
}
