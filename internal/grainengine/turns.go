package grainengine

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// turns are those that an activation is in: the mailbox's, which others may interleave with while it waits, or a hook.
type turns struct {
	a       *activation                 // whose they are
	inner   atomic.Int32                // interleaved turns that have not ended
	current atomic.Pointer[core.Future] // the call whose turn it is
	hook    atomic.Pointer[core.Turn]   // of OnActivate or OnDeactivate while it runs
	gate    atomic.Pointer[gate]        // made by the first turn that waits
}

// gate keeps the turns of one activation apart once they may interleave. A turn opens it before it waits, and locks it
// again before it goes on; an interleaved turn has it locked while it runs. The lock is a channel and not a mutex, so
// that virtual time advances while a turn waits for it.
type gate struct {
	lock  chan struct{} // capacity 1: full while locked
	mu    sync.Mutex    // guards the rest
	main  *passage      // of the mailbox's turn, once it has waited
	inner []*passage    // of interleaved turns
	idle  chan struct{} // closed when the last interleaved turn ends; made by waitInner
	back  []*comeback   // queued calls that came back over other nodes
}

// passage is what a turn in progress has to do with the gate. The first of its goroutines that waits opens the gate, the last whose
// wait is over locks it again.
type passage struct {
	call   *core.Future
	waits  int           // goroutines of the turn that wait
	locked bool          // the turn has the lock
	taking chan struct{} // closed when the goroutine that takes the lock has done so; else nil
	over   bool
}

func (in *turns) makeGate() *gate {
	if g := in.gate.Load(); g != nil {
		return g
	}
	g := &gate{lock: make(chan struct{}, 1)}
	if !in.gate.CompareAndSwap(nil, g) {
		return in.gate.Load()
	}
	return g
}

// openGate is called by the turn t before it waits.
func (in *turns) openGate(t *core.Turn) {
	g := in.makeGate()
	release := false
	g.mu.Lock()
	if p := in.passage(g, t); p != nil {
		p.waits++
		release, p.locked = p.locked, false
	}
	back := slices.Clone(g.back)
	g.mu.Unlock()
	if release {
		<-g.lock
	}
	if in.currentReadOnly() {
		in.admitReaders()
	}
	for _, b := range back {
		b.look()
	}
}

// shutGate is called by the turn t when its wait is over.
func (in *turns) shutGate(t *core.Turn) {
	g := in.makeGate()
	g.mu.Lock()
	p := in.passage(g, t)
	if p == nil {
		g.mu.Unlock()
		return
	}
	p.waits--
	if p.waits > 0 || p.locked {
		g.mu.Unlock()
		return
	}
	taking := p.taking
	if taking != nil {
		g.mu.Unlock()
		<-taking
		return
	}
	p.taking = make(chan struct{})
	g.mu.Unlock()
	g.lock <- struct{}{}
	g.mu.Lock()
	close(p.taking)
	p.taking = nil
	p.locked = p.waits == 0 && !p.over // else another of its goroutines waits by now
	keep := p.locked
	g.mu.Unlock()
	if !keep {
		<-g.lock
	}
}

// passage returns that of a turn in progress, nil once it is over. With g.mu held.
func (in *turns) passage(g *gate, t *core.Turn) *passage {
	if c := in.current.Load(); c != nil && c.OwnTurn() == t.Base() {
		if g.main == nil {
			g.main = &passage{call: c}
		}
		return g.main
	}
	for _, p := range g.inner {
		if p.call.OwnTurn() == t.Base() {
			return p
		}
	}
	return nil
}

// leave ends p, nil for none, with its turn. The caller has g.mu, which leave unlocks.
func (g *gate) leave(p *passage) {
	locked := p != nil && p.locked
	if p != nil {
		p.over, p.locked = true, false
	}
	g.mu.Unlock()
	if locked {
		<-g.lock
	}
}

// endMain ends the passage of the mailbox's turn.
func (g *gate) endMain() {
	g.mu.Lock()
	p := g.main
	g.main = nil
	g.leave(p)
}

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

// inTurn reports whether a call has its turn: a hook waits without opening the gate.
func (in *turns) inTurn() bool { return in.current.Load() != nil || in.inner.Load() > 0 }

// A call may come back over other nodes to a grain whose turn is above it in the chain of calls. This node does not see
// the waits between. A reentrant call is let in as soon as the turn waits. For another call this node asks the nodes on
// the way whether it closes a cycle: at once, and again after growing pauses, since the turn that made the call may
// begin to wait for it later.

// firstLook is the pause after the first question, lastLook the longest; each is four times the one before.
const (
	firstLook = time.Millisecond
	lastLook  = 4 * time.Second
)

// comeback is a queued call that came back.
type comeback struct {
	act   *activation
	call  *call
	armed atomic.Bool // alarm is set; the goroutine that sets it may write pause
	pause time.Duration
	alarm core.Alarm
}

// cameBack is called for each call that was queued, and notes one that came back.
func (in *turns) cameBack(c *call) {
	if up := c.Future.Up(); in.current.Load() == nil && in.inner.Load() == 0 || !up.FromElsewhere() || !in.isAbove(up) {
		return
	}
	b := &comeback{act: in.a, call: c, pause: firstLook}
	b.alarm.Ring = func() {
		b.armed.Store(false)
		b.look()
	}
	g := in.makeGate()
	g.mu.Lock()
	g.back = slices.DeleteFunc(g.back, (*comeback).over)
	g.back = append(g.back, b)
	g.mu.Unlock()
	b.look()
}

// isAbove reports whether up was called over another node by a turn that a is in.
func (in *turns) isAbove(up *core.Turn) bool {
	return slices.ContainsFunc(in.inProgress(), func(t *core.Turn) bool { return up.CalledUnder(t) })
}

func (b *comeback) over() bool { return !b.call.Future.Pending() || b.call.queuedAt() != b.act }

// look lets the call in, or begins a search for a cycle, where a turn above it waits. A turn that begins to wait later
// calls it again.
func (b *comeback) look() {
	up := b.call.Future.Up()
	for _, t := range b.act.inProgress() {
		switch {
		case b.over():
			return
		case !t.IsBlocked() || !up.CalledUnder(t):
		case b.call.method.reentrant:
			if b.act.admitChain(b.call, false) {
				return
			}
		case t.Job().Prober != nil:
			t.Job().Prober.Probe(t)
			if b.armed.CompareAndSwap(false, true) {
				b.alarm.At = t.Runtime().Now() + int64(b.pause)
				b.pause = min(4*b.pause, lastLook)
				t.Runtime().SetAlarm(&b.alarm)
			}
			return
		}
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

// callsInTurn are those in their turn.
func (in *turns) callsInTurn() (list []*core.Future) {
	if c := in.current.Load(); c != nil {
		list = append(list, c)
	}
	if g := in.gate.Load(); g != nil {
		g.mu.Lock()
		for _, p := range g.inner {
			list = append(list, p.call)
		}
		g.mu.Unlock()
	}
	return list
}

func (in *turns) turnNow(now int64) (t oneTurn) {
	if f := in.current.Load(); f != nil {
		c := callOf(f)
		if c == nil {
			return t
		}
		t = oneTurn{of: f, name: c.method.entry.Name}
		switch {
		case c.until != 0 && now > c.until:
			t.late = "past its deadline"
		case f.Settled() && f.Failed():
			t.late, t.ended = "given up by its caller", true
		}
	} else if h := in.hook.Load(); h != nil {
		t = oneTurn{of: h, name: in.a.kind.def.name + h.Name()[strings.LastIndexByte(h.Name(), '.'):]}
	}
	return t
}
