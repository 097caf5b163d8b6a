package grainengine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// activation is one grain in memory: its mailbox, its G and its PID.
type activation struct {
	mailbox
	kind    *boundKind
	key     string
	id      string // of the PID: kind/key$n
	state   any    // *G; nil before OnActivate and after OnDeactivate
	failed  error  // OnActivate's, for the calls that wait
	pool    *pool  // of a stateless worker
	used    atomic.Uint32
	turns                           // in progress
	tenure  *tenure                 // nil for a plain grain of a single process
	holding *holding                // nil for a kind that asks for no resources
	laters  atomic.Pointer[laters]  // made by the first call of a LaterMethod
	timers  atomic.Pointer[timers]  // made by the first timer
	parting atomic.Pointer[parting] // made by Unload
}

// passivate asks an idle activation to go.
type passivate struct {
	force bool // asked by the grain itself
	ticks uint32
}

// newActivation makes an activation for the kind's table; spawn gives it its actor.
func newActivation(k *boundKind, key string, in core.Bundle) *activation {
	a := &activation{kind: k, key: key}
	a.turns.a = a
	if k.def.holds() || in.Group != "" {
		a.holding = &holding{a: a, bundle: in}
	}
	if k.engine.cfg.Cluster != nil && !k.def.Stateless || len(k.def.states) > 0 {
		a.tenure = &tenure{a: a}
	}
	if k.def.Durable {
		a.tenure.durable = &durable{a: a}
	}
	a.id = k.def.name + "/" + key + "$" + strconv.FormatUint(k.engine.serial.Add(1), 36)
	a.mailbox.init(a)
	a.used.Store(k.ticks.Load())
	return a
}

// spawn gives the activation what its kind asks for, now or later, and then its actor.
func (a *activation) spawn() {
	switch h := a.holding; {
	case h == nil:
		a.start()
	case h.bundle.Group != "":
		a.holding.enter()
	default:
		a.kind.engine.cfg.Line.Push(a.kind.def.Need, h)
		a.kind.engine.dropWaiting() // Close and Drain look at the line after they set what Over reads
	}
}

// start gives the activation its actor. The mailbox may hold calls already; they run after OnActivate.
func (a *activation) start() {
	e := a.kind.engine
	e.spawnMu.Lock()
	defer e.spawnMu.Unlock()
	e.spawning = a
	if _, err := a.kind.root.SpawnNamed(a.kind.props, a.id); err != nil {
		// The id carries a serial number that is never reused.
		panic(fmt.Sprintf("raysys: spawn %s: %v", a.id, err))
	}
}

// post queues a message from the runtime itself, beyond the mailbox's bound.
func (a *activation) post(e *mail) {
	a.pushed.Add(1)
	a.put(e)
}

// accept queues c as m; false when the activation has closed this moment.
func (a *activation) accept(c *call, m *mail) (ok bool, err error) {
	ok, closed := a.reserve(a.kind.def.Mailbox)
	if ok && a.kind.def.later && a.laters.Load().keptCalls() > 0 && a.waits()+a.laters.Load().keptCalls() > a.kind.def.Mailbox {
		a.pushed.Add(^uint64(0))
		ok = false
	}
	switch {
	case ok:
		c.queueAt(a) // after reserve: upTo counts a call with a queue as one that has room in the mailbox
		a.put(m)
		a.admitReader(c)
		if a.tenure != nil {
			a.cameBack(c)
		}
		return true, nil
	case closed:
		if a.kind.engine.closed.Load() {
			return true, raysys.ErrClosed
		}
		return false, nil
	}
	err = overloaded(a.kind.def.Mailbox)
	if n := a.laters.Load().keptCalls(); n > 0 {
		err = fmt.Errorf("%w; the grain keeps %d of them, until it settles them", err, n)
	}
	return true, err
}

// context returns the context of a hook, which is a turn of its own on this activation.
func (a *activation) context(what string) (context.Context, *core.Turn) {
	e := a.kind.engine
	t := core.NewTurn(core.TurnSpec{
		Kind: core.TurnGrain, Name: a.kind.def.name + "/" + shown(a.key) + "." + what,
		ID: e.cfg.Hooks.ID().Child(e.hooks.Add(1)), Up: e.cfg.Hooks, Attempt: 1, Attached: a, Slot: a.holding.slot(),
	})
	return core.HookContext(t), t
}

// activate makes the G and prepares it.
func (a *activation) activate() {
	if a.holding.denied() {
		return
	}
	g := a.kind.def.make()
	if len(a.kind.def.states) > 0 {
		if err := a.loadStates(g); err != nil {
			a.hookFailed("OnActivate", fmt.Errorf("%w: %w", ErrNotLoaded, err))
			return
		}
	}
	if act, ok := g.(activator); ok {
		if err := a.runHook("OnActivate", act.OnActivate); err != nil {
			return
		}
	}
	a.failed, a.state = nil, g
}

// deactivate ends the G.
func (a *activation) deactivate() {
	g := a.state
	if g == nil {
		return
	}
	a.waitInner()
	a.timers.Load().end()
	if d, ok := g.(deactivator); ok {
		_ = a.runHook("OnDeactivate", d.OnDeactivate)
	}
	if a.tenure != nil && a.tenure.durable != nil {
		a.tenure.durable.flush()
		a.tenure.durable.settled()
	}
	a.state = nil
	if a.tenure != nil {
		a.tenure.cells = nil // a turn that is still referred to keeps the activation, and need not keep its States
	}
}

// runHook runs a hook as a turn of its own and sees to its failure: an error, a panic or the end of its goroutine.
func (a *activation) runHook(name string, f func(context.Context) error) (err error) {
	ctx, t := a.context(name)
	a.hook.Store(t)
	normal := false
	defer func() {
		if !normal {
			if p := recover(); p != nil {
				job, work := t.Job(), a.kind.def.name+"/"+a.key+"."+name
				err = &raysys.TaskError{
					Task: t.ID(), Function: work, Node: job.Node, Attempt: 1, Err: &raysys.PanicError{Value: core.SoundPanic(p)}, Stack: debug.Stack(),
				}
				if job.Panicked != nil {
					job.Panicked(work, err)
				}
			} else {
				err = errGoexit
			}
		}
		a.hook.Store(nil)
		t.End()
		if err != nil {
			a.hookFailed(name, err)
		}
	}()
	if a.tenure == nil || a.tenure.durable == nil {
		err = core.Sound(f(ctx))
	} else if era, ok := a.tenure.durable.begin(); ok {
		err = a.tenure.durable.hookEnded(t, era, name == "OnDeactivate", core.Sound(f(ctx)))
	}
	normal = true
	return err
}

func (a *activation) hookFailed(name string, err error) {
	switch {
	case name == "OnActivate":
		err = core.HandOverError(a.kind.engine.cfg.Hooks.Job(), err)
		a.failed = fmt.Errorf("%s/%s: %w: %w", a.kind.def.name, shown(a.key), ErrActivation, err)
		// Calls in the mailbox fail with that. The message is queued behind them, so that the call after it finds a new
		// activation.
		a.post(&mail{msg: passivate{force: true}})
	default:
		reportUnseen(a, name, err)
	}
}

// reportUnseen reports what nobody waits for: the failure of a hook, or of a message that was kept.
func reportUnseen(a *activation, name string, err error) {
	if tell := a.kind.engine.cfg.Unseen; tell != nil {
		tell(a.kind.def.name+"/"+a.key+"."+name, err)
	}
}

// close takes the activation out of the kind's table; only its own turn calls it, after deactivate. Calls that came
// meanwhile move, in order, to a successor, which starts only now: there are never two activations. On a node of a
// cluster they may have to follow the grain to another node.
func (a *activation) close() {
	k := a.kind
	s := k.stripeOf(a.key)
	s.Lock()
	a.pushed.Or(closedBit)
	calls := a.drain()
	if a.tenure != nil && len(a.tenure.unserved) > 0 {
		calls = append(a.tenure.unserved, calls...)
	}
	if a.holding != nil && len(a.holding.unserved) > 0 {
		calls = append(a.holding.unserved, calls...)
	}
	in := a.holding.takenFrom()
	ended, calls := a.holding.orphans(calls)
	if a.holding.evictedBy() != nil && len(calls) > 0 {
		in = calls[0].bundle()
	}
	var next *activation
	var r *route
	left := false
	switch {
	case a.pool != nil:
	case s.activations[a.key] != a:
	case len(calls) > 0 && a.stays() && !k.engine.closed.Load():
		next = newActivation(k, a.key, in)
		if a.tenure != nil {
			next.tenure.token, next.tenure.wanted = a.tenure.token, a.tenure.wanted
		}
		for _, c := range calls {
			c.queueAt(next)
			// The call's own mail may still be linked in the old mailbox, so it gets another.
			next.pushed.Add(1)
			next.put(&mail{msg: c})
		}
		s.activations[a.key] = next
	default:
		delete(s.activations, a.key)
		left = true
		if a.tenure != nil && k.engine.cfg.Cluster != nil && !k.engine.closed.Load() {
			r = a.routeLocked(s, calls)
		}
	}
	s.Unlock()
	for _, c := range ended {
		c.Future.Fail(fmt.Errorf("%s/%s: %w", k.def.name, shown(a.key), a.holding.evictedBy()))
	}
	if r == nil {
		defer a.parting.Load().end()
	}
	switch {
	case next != nil:
		next.spawn()
	case r != nil:
		k.activationGone()
		r.leave(a)
	default:
		if left {
			defer k.activationGone()
		}
		for _, c := range calls {
			if v := c.inbound(); v != nil {
				v.refuse(graindir.Place{})
				continue
			}
			c.Future.Fail(fmt.Errorf("%s/%s: %w", k.def.name, a.key, raysys.ErrClosed))
		}
	}
}

// drain takes what is left in the closed mailbox, also from senders that reserved room before it closed and link their
// mail now.
func (a *activation) drain() (calls []*call) {
	for {
		msg, ok := a.pop()
		if !ok {
			if a.pushed.Load()&^closedBit <= a.popped.Load() {
				return calls
			}
			runtime.Gosched()
			continue
		}
		if c, ok := msg.(*call); ok {
			calls = append(calls, c)
		}
	}
}

// perform runs c as the activation's turn.
func (a *activation) perform(c *call) (panicked any) {
	if a.inner.Load() > 0 {
		a.waitInner()
	}
	if a.tenure != nil && !a.tenure.mayRun(c, false) {
		return nil
	}
	if a.state == nil && a.holding.evictedBy() == nil {
		a.failCall(c, a.failed)
		return nil
	}
	a.used.Store(a.kind.ticks.Load())
	a.current.Store(&c.Future)
	defer a.endTurn()
	if a.holding != nil && a.holding.refusesEvicted(c, false) {
		return nil
	}
	return c.do(a)
}

func (a *activation) endTurn() {
	if now := a.kind.ticks.Load(); a.used.Load() != now { // a long turn does not count as idle time
		a.used.Store(now)
	}
	a.current.Store(nil)
	if g := a.gate.Load(); g != nil {
		g.endMain()
	}
}

// inProgress returns the turns the activation is in.
func (in *turns) inProgress() (ts []*core.Turn) {
	if t := in.hook.Load(); t != nil {
		ts = append(ts, t)
	}
	if c := in.current.Load(); c != nil {
		if t := c.OwnTurn(); t != nil {
			ts = append(ts, t)
		}
	}
	if g := in.gate.Load(); g != nil {
		g.mu.Lock()
		for _, p := range g.inner {
			if t := p.call.OwnTurn(); t != nil {
				ts = append(ts, t)
			}
		}
		g.mu.Unlock()
	}
	return ts
}
