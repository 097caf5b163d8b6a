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
func (in *turns) admitChain(c *call, readers bool) bool {
	for c.Future.Pending() && c.queuedAt() == in.a {
		list, found, all := in.upTo(c)
		switch {
		case found && readers && slices.ContainsFunc(list, func(q *call) bool { return !q.isReadOnly() }):
			return false
		case found:
			// When it is not admitted, the turn that it waited for is over: it runs next, or waits for another.
			return in.admitCalls(list) || in.hook.Load() == nil
		case all:
			return false
		}
		runtime.Gosched() // the mailbox changed meanwhile, or a sender is about to link its call
	}
	return true
}

// upTo lists the calls of c's turn in the mailbox up to c. all reports that it has seen the whole mailbox, with every
// call that has reserved room in it.
func (in *turns) upTo(c *call) (list []*call, found, all bool) {
	from := c.Future.Up().Base()
	// The first mail is read already: it is the current turn's, or one that waits until interleaved turns end.
	head := in.a.head.Load()
	last, seen := head, 0
	for e := head; e != nil; e = e.next.Load() {
		if last = e; e != head && e != &in.a.stub {
			seen++
		}
		// msg is the whole record of a call, of which c may be a part.
		if q, ok := e.msg.(*call); ok && q.Future.Pending() && q.Future.Up().Base() == from {
			if list = append(list, q); &q.Future == &c.Future {
				return list, true, true
			}
		}
	}
	return nil, false, in.a.head.Load() == head && in.a.tail.Load() == last && in.a.UserMessageCount() == seen
}

// admitReaders lets in the read-only calls at the front of the mailbox.
func (in *turns) admitReaders() {
	if !in.onlyReaders() {
		return
	}
	var list []*call
	for e := in.a.head.Load().next.Load(); e != nil; e = e.next.Load() {
		if e == &in.a.stub {
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
		in.admitCalls(list)
	}
}

// admitCalls runs list, in order, between the waits of the current turn. It fails when that turn is over.
func (in *turns) admitCalls(list []*call) bool {
	cur := in.current.Load()
	if cur == nil {
		return in.admitBehind(list)
	}
	// The mailbox's next turn publishes itself in current before it looks at inner; this looks the other way round. So
	// either this sees that the turn has changed, or that turn waits for inner to end.
	in.inner.Add(1)
	if in.current.Load() != cur {
		in.innerEnded()
		return false
	}
	go in.interleave(list)
	return true
}

// admitBehind is admitCalls when the mailbox's turn is over, but an interleaved one is not and the mailbox waits for it.
func (in *turns) admitBehind(list []*call) bool {
	g := in.gate.Load()
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.inner.Load() == 0 {
		return false
	}
	in.inner.Add(1)
	go in.interleave(list)
	return true
}

// onlyReaders reports whether all turns in progress are read-only.
func (in *turns) onlyReaders() bool {
	if c := in.current.Load(); c != nil && !readOnly(c) {
		return false
	}
	g := in.gate.Load()
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

func (in *turns) interleave(list []*call) {
	g := in.makeGate()
	defer in.innerEnded()
	for _, c := range list {
		g.lock <- struct{}{}
		p := &passage{call: &c.Future, locked: true}
		g.mu.Lock()
		g.inner = append(g.inner, p)
		g.mu.Unlock()
		in.interleaved(g, p, c)
	}
}

func (in *turns) interleaved(g *gate, p *passage, c *call) {
	defer func() {
		g.mu.Lock()
		i := slices.Index(g.inner, p)
		g.inner = slices.Delete(g.inner, i, i+1)
		g.leave(p)
	}()
	if in.a.tenure != nil && !in.a.tenure.mayRun(c, true) {
		return
	}
	if in.a.state == nil {
		in.a.failCall(c, in.a.failed)
		return
	}
	if in.a.holding != nil && in.a.holding.refusesEvicted(c, true) {
		return
	}
	// The turn that waits has given the CPU of the kind back.
	if s := in.a.holding.slot(); s != nil {
		pool := s.Pool
		if pool == nil {
			pool = in.a.kind.engine.cfg.Line
		}
		pool.RetakeCPU(s.CPU)
		defer pool.GiveCPU(s.CPU)
	}
	if panicked := c.do(in.a); panicked != nil && in.a.kind.def.OnPanic != KeepOnPanic {
		in.a.PostSystemMessage(supervised{panicked}) // seen before any further call
	}
}

func (in *turns) innerEnded() {
	g := in.makeGate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.inner.Add(-1) == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// waitInner returns when the interleaved turns have ended; the mailbox's next turn begins with it.
func (in *turns) waitInner() {
	g := in.gate.Load()
	if g == nil {
		return
	}
	g.mu.Lock()
	if in.inner.Load() == 0 {
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

func (in *turns) currentReadOnly() bool {
	c := in.current.Load()
	return c != nil && readOnly(c)
}

// admitReader lets c in, which was queued this moment, when it and the turn that waits are read-only.
func (in *turns) admitReader(c *call) {
	if !c.isReadOnly() || !in.currentReadOnly() {
		return
	}
	g := in.makeGate()
	g.mu.Lock()
	waiting := g.main != nil && g.main.waits > 0
	g.mu.Unlock()
	if waiting {
		in.admitReaders()
	}
}

// Block is called by the runtime before a grain's turn parks, Unblock after.
func (e *Engine) Block(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.openGate(t)
	}
}

// Unblock is called on the goroutine of the turn when its wait is over.
func (e *Engine) Unblock(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.shutGate(t)
	}
}

// inTurn reports whether a call has its turn: a hook waits without opening the gate.
func (in *turns) inTurn() bool { return in.current.Load() != nil || in.inner.Load() > 0 }
