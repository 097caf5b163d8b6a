package grainengine

import (
	"runtime"
	"slices"

	"github.com/raysys/raysys/internal/core"
)

// Interleaving. A call is let in while the activation's turn waits in two cases: it closes a cycle of waits and is
// declared reentrant, or both it and every turn in progress are read-only. It runs on a goroutine of its own and has
// the activation's gate locked, so that turns never run at the same time. The mailbox skips it later, since it has
// started.

// admitChain lets c in, with the calls of the same turn that were queued before it, so that their order holds. It
// returns false when c cannot come in: it is not in the mailbox, it waits for a hook, or readers are let in and a
// writer is among them.
func (a *activation) admitChain(c *call, readers bool) bool {
	for c.Future.Pending() && c.queuedAt() == a {
		list, found, all := a.upTo(c)
		switch {
		case found && readers && slices.ContainsFunc(list, func(q *call) bool { return !q.isReadOnly() }):
			return false
		case found:
			// When it is not admitted, the turn that it waited for is over: it runs next, or waits for another.
			return a.admit(list) || a.hook.Load() == nil
		case all:
			return false
		}
		runtime.Gosched() // the mailbox changed meanwhile, or a sender is about to link its call
	}
	return true
}

// upTo lists the calls of c's turn in the mailbox up to c. all reports that it has seen the whole mailbox, with every
// call that has reserved room in it.
func (a *activation) upTo(c *call) (list []*call, found, all bool) {
	from := c.Future.Up().Base()
	// The first mail is read already: it is the current turn's, or one that waits until interleaved turns end.
	head := a.head.Load()
	last, seen := head, 0
	for e := head; e != nil; e = e.next.Load() {
		if last = e; e != head && e != &a.stub {
			seen++
		}
		// msg is the whole record of a call, of which c may be a part.
		if q, ok := e.msg.(*call); ok && q.Future.Pending() && q.Future.Up().Base() == from {
			if list = append(list, q); &q.Future == &c.Future {
				return list, true, true
			}
		}
	}
	return nil, false, a.head.Load() == head && a.tail.Load() == last && a.UserMessageCount() == seen
}

// admitReaders lets in the read-only calls at the front of the mailbox.
func (a *activation) admitReaders() {
	if !a.onlyReaders() {
		return
	}
	var list []*call
	for e := a.head.Load().next.Load(); e != nil; e = e.next.Load() {
		if e == &a.stub {
			continue
		}
		q, ok := e.msg.(*call)
		if !ok {
			break
		}
		if !q.Future.Pending() {
			continue
		}
		if !q.isReadOnly() {
			break
		}
		list = append(list, q)
	}
	if len(list) > 0 {
		a.admit(list)
	}
}

// admit runs list, in order, between the waits of the current turn. It fails when that turn is over.
func (a *activation) admit(list []*call) bool {
	cur := a.current.Load()
	if cur == nil {
		return a.admitBehind(list)
	}
	// The mailbox's next turn publishes itself in current before it looks at inner; this looks the other way round. So
	// either this sees that the turn has changed, or that turn waits for inner to end.
	a.inner.Add(1)
	if a.current.Load() != cur {
		a.innerEnded()
		return false
	}
	go a.interleave(list)
	return true
}

// admitBehind is admit when the mailbox's turn is over, but an interleaved one is not and the mailbox waits for it.
func (a *activation) admitBehind(list []*call) bool {
	g := a.gate.Load()
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.inner.Load() == 0 {
		return false
	}
	a.inner.Add(1)
	go a.interleave(list)
	return true
}

// onlyReaders reports whether all turns in progress are read-only.
func (a *activation) onlyReaders() bool {
	if c := a.current.Load(); c != nil && !readOnly(c) {
		return false
	}
	g := a.gate.Load()
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(g.inner, func(p *passage) bool { return !readOnly(p.call) })
}

func readOnly(c *core.Future) bool {
	t := callOf(c)
	return t != nil && t.isReadOnly()
}

func (a *activation) interleave(list []*call) {
	g := a.gated()
	defer a.innerEnded()
	for _, c := range list {
		g.lock <- struct{}{}
		p := &passage{call: &c.Future, locked: true}
		g.mu.Lock()
		g.inner = append(g.inner, p)
		g.mu.Unlock()
		a.interleaved(g, p, c)
	}
}

func (a *activation) interleaved(g *gate, p *passage, c *call) {
	defer func() {
		g.mu.Lock()
		i := slices.Index(g.inner, p)
		g.inner = slices.Delete(g.inner, i, i+1)
		g.leave(p)
	}()
	if a.tenure != nil && !a.tenure.mayRun(c, true) {
		return
	}
	if a.state == nil {
		a.failCall(c, a.failed)
		return
	}
	if a.holding != nil && a.holding.refusesEvicted(c, true) {
		return
	}
	// The turn that waits has given the CPU of the kind back.
	if s := a.holding.slot(); s != nil {
		pool := s.Pool
		if pool == nil {
			pool = a.kind.engine.cfg.Line
		}
		pool.RetakeCPU(s.CPU)
		defer pool.GiveCPU(s.CPU)
	}
	if panicked := c.do(a); panicked != nil && a.kind.def.OnPanic != KeepOnPanic {
		a.PostSystemMessage(supervised{panicked}) // seen before any further call
	}
}

func (a *activation) innerEnded() {
	g := a.gated()
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.inner.Add(-1) == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// waitInner returns when the interleaved turns have ended; the mailbox's next turn begins with it.
func (a *activation) waitInner() {
	g := a.gate.Load()
	if g == nil {
		return
	}
	g.mu.Lock()
	if a.inner.Load() == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}

func (a *activation) currentReadOnly() bool {
	c := a.current.Load()
	return c != nil && readOnly(c)
}

// admitReader lets c in, which was queued this moment, when it and the turn that waits are read-only.
func (a *activation) admitReader(c *call) {
	if !c.isReadOnly() || !a.currentReadOnly() {
		return
	}
	g := a.gated()
	g.mu.Lock()
	waiting := g.main != nil && g.main.waits > 0
	g.mu.Unlock()
	if waiting {
		a.admitReaders()
	}
}

// Block is called by the runtime before a grain's turn parks, Unblock after.
func (e *Engine) Block(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.open(t)
	}
}

// Unblock is called on the goroutine of the turn when its wait is over.
func (e *Engine) Unblock(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.shut(t)
	}
}

// inTurn reports whether a call has its turn: a hook waits without opening the gate.
func (a *activation) inTurn() bool { return a.current.Load() != nil || a.inner.Load() > 0 }
