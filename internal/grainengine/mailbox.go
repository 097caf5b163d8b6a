package grainengine

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// mail is one message in a mailbox. A call embeds its own, so that queueing it allocates nothing.
type mail struct {
	next atomic.Pointer[mail]
	msg  any // the call, or any message sent to the PID
}

// mailbox is the actor.Mailbox of an activation: an intrusive queue for many senders and one reader (Vyukov's), a
// count that bounds it, and no memory beyond this struct while it is empty. protoactor's own mailboxes hold 200 to
// 400 bytes each when idle.
//
// The fields that senders write and those that the reader writes lie at the two ends, on different cache lines. Side by
// side, every call would take the line from the other's core.
type mailbox struct {
	pushed atomic.Uint64        // messages that senders reserved room for; closedBit once nothing more is accepted
	room   atomic.Uint64        // pushed may grow to this without a look at popped
	tail   atomic.Pointer[mail] // senders
	busy   atomic.Bool          // a goroutine reads, or will

	invoker actor.MessageInvoker
	owner   *activation
	stub    mail
	sysMu   sync.Mutex // guards sys
	sys     []any

	sysCount  atomic.Int32
	suspended bool                 // by supervision; only the reader looks
	watched   bool                 // an actor watches the PID, or did; only the reader looks
	popped    atomic.Uint64        // written by the reader
	head      atomic.Pointer[mail] // the mail that was read last; others read it to look ahead
}

const closedBit = 1 << 63

func (m *mailbox) init(owner *activation) {
	m.owner = owner
	m.tail.Store(&m.stub)
	m.head.Store(&m.stub)
	m.busy.Store(true) // until Start
}

// reserve takes room for one message.
func (m *mailbox) reserve(limit int) (ok, closed bool) {
	n := m.pushed.Add(1)
	if n&closedBit != 0 {
		m.pushed.Add(^uint64(0))
		return false, true
	}
	if n > m.room.Load() {
		room := m.popped.Load() + uint64(limit)
		if n > room {
			m.pushed.Add(^uint64(0))
			return false, false
		}
		m.room.Store(room)
	}
	return true, false
}

func overloaded(limit int) error {
	return fmt.Errorf("%w: the mailbox holds %d calls: call less often, wait for results, or raise grains.Mailbox",
		raysys.ErrOverloaded, limit)
}

// put links a message that has room reserved, and starts a reader if there is none.
func (m *mailbox) put(e *mail) {
	m.tail.Swap(e).next.Store(e)
	m.schedule()
}

func (m *mailbox) schedule() {
	if !m.busy.Load() && m.busy.CompareAndSwap(false, true) {
		m.owner.kind.engine.cfg.Pool.Go(m)
	}
}

// PostUserMessage implements actor.Mailbox: a message sent to the PID by anyone. Calls come through reserve and put.
func (m *mailbox) PostUserMessage(msg any) {
	m.pushed.Add(1)
	m.put(&mail{msg: msg})
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(msg any) {
	m.sysMu.Lock()
	m.sys = append(m.sys, msg)
	m.sysMu.Unlock()
	m.sysCount.Add(1)
	m.schedule()
}

// RegisterHandlers implements actor.Mailbox. The dispatcher is not used: a mailbox that has work is a goroutine.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

// Start implements actor.Mailbox.
func (m *mailbox) Start() { m.owner.kind.engine.cfg.Pool.Go(m) }

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	return int(m.pushed.Load()&^closedBit - m.popped.Load())
}

func (m *mailbox) popSystem() any {
	if m.sysCount.Load() == 0 {
		return nil
	}
	m.sysMu.Lock()
	defer m.sysMu.Unlock()
	if len(m.sys) == 0 {
		return nil
	}
	msg := m.sys[0]
	m.sys[0] = nil
	if m.sys = m.sys[1:]; len(m.sys) == 0 {
		m.sys = nil
	}
	m.sysCount.Add(-1)
	return msg
}

func (m *mailbox) pop() (any, bool) {
	for {
		h := m.head.Load()
		n := h.next.Load()
		if n == nil {
			return nil, false
		}
		m.head.Store(n)
		h.next.Store(nil) // or a kept future would keep every later call alive
		if n == &m.stub {
			continue
		}
		m.popped.Add(1)
		return n.msg, true
	}
}

// eachWaiting shows the calls that wait, the first first. It may miss some while the mailbox is read.
func (m *mailbox) eachWaiting(f func(*call)) {
	for e := m.head.Load().next.Load(); e != nil; e = e.next.Load() {
		if c, ok := e.msg.(*call); ok && c.Future.Pending() {
			f(c)
		}
	}
}

// forget takes the last mail out of the empty queue, which would otherwise keep that call and its result alive.
func (m *mailbox) forget() {
	h := m.head.Load()
	if h == &m.stub || m.tail.Load() != h {
		return
	}
	m.stub.next.Store(nil)
	m.tail.Swap(&m.stub).next.Store(&m.stub)
	if h.next.Load() == &m.stub { // else a sender came first, and its message is read before the stub
		m.head.Store(&m.stub)
	}
}

// Run implements goroutines.Work: it reads until there is nothing left.
func (m *mailbox) Run() {
	for {
		m.read()
		m.forget()
		suspended := m.suspended // once busy is false, another goroutine may be the reader
		m.busy.Store(false)
		// A sender that linked its message after the last look found busy set and started no reader.
		more := m.sysCount.Load() > 0 || (!suspended && m.head.Load().next.Load() != nil)
		if !more || !m.busy.CompareAndSwap(false, true) {
			return
		}
	}
}

func (m *mailbox) read() {
	var msg any
	ended := false
	defer func() {
		if ended {
			return
		}
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, nil)
			return
		}
		m.owner.kind.engine.cfg.Pool.Go(m) // user code ended this goroutine (runtime.Goexit): the mailbox lives on in another
	}()
	for i := 1; ; i++ {
		if i%256 == 0 {
			runtime.Gosched()
		}
		if msg = m.popSystem(); msg != nil {
			switch msg.(type) {
			case *actor.SuspendMailbox:
				m.suspended = true
			case *actor.ResumeMailbox:
				m.suspended = false
			case supervised: // an interleaved turn panicked
				m.invoker.EscalateFailure(msg, nil)
			case *actor.Watch:
				m.watched = true
				m.invoker.InvokeSystemMessage(msg)
			default:
				m.invoker.InvokeSystemMessage(msg)
			}
			continue
		}
		if m.suspended {
			break
		}
		var ok bool
		if msg, ok = m.pop(); !ok {
			break
		}
		m.invoker.InvokeUserMessage(msg)
	}
	ended = true
}

// maxPushed bounds the bytes of arguments that came before the heads of their calls, of one peer. Heads overtake most arguments.
const maxPushed = 8 << 20

// pushed joins the heads of calls of one peer with the arguments that it pushed, which come over another connection. peer.mu guards it.
//
//	the head first       due ──► the argument: to the call, if that still waits
//	the argument first   early ──► the head takes it, or asks again for one that was dropped for want of room
type pushed struct {
	early map[uint64][]byte // nil for one that was dropped
	bytes int               // of early
	due   map[uint64]struct{}
}

// head is called once with the number of each call whose argument was pushed, also where the call itself will not come. Either it
// returns the argument, or that is due; asks says that it has to be asked for.
func (b *pushed) head(slot uint64) (argument []byte, asks bool) {
	argument, came := b.early[slot]
	if came {
		delete(b.early, slot)
		b.bytes -= len(argument)
		return argument, argument == nil
	}
	if b.due == nil {
		b.due = map[uint64]struct{}{}
	}
	b.due[slot] = struct{}{}
	return nil, false
}

// argument is called with each that comes and that no call waits for.
func (b *pushed) argument(slot uint64, argument []byte) {
	if b.arrived(slot) {
		return // its call has ended
	}
	if b.early == nil {
		b.early = map[uint64][]byte{}
	}
	if b.bytes+len(argument) > maxPushed {
		b.early[slot] = nil
		return
	}
	b.early[slot] = slices.Clone(argument) // the frame is the link's
	b.bytes += len(argument)
}

// arrived reports whether the argument was due.
func (b *pushed) arrived(slot uint64) bool {
	_, due := b.due[slot]
	delete(b.due, slot)
	return due
}

// kindActor is the protoactor actor of every activation of a kind. It has no state: a call knows its activation, and
// find returns the activation of a life-cycle message by its PID, so an activation needs no actor object of its own.
type kindActor struct{ kind *boundKind }

// supervised is the panic that hands an activation to its supervisor, after the call that panicked was failed.
type supervised struct{ cause any }

func (s supervised) String() string { return fmt.Sprint(s.cause) }

// supervision is protoactor's, with the kind's choice for a panic.
func supervision(choice PanicChoice) actor.SupervisorStrategy {
	return actor.NewOneForOneStrategy(10, 10e9, func(any) actor.Directive {
		if choice == RestartOnPanic {
			return actor.RestartDirective
		}
		return actor.StopDirective
	})
}

// Receive implements actor.Actor.
func (h *kindActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *call:
		a := m.queuedAt()
		if panicked := a.perform(m); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case pull:
		a := h.find(ctx.Self())
		if a == nil {
			return // it has left
		}
		if panicked := a.pool.work(a); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case *timer:
		if panicked := m.perform(); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case passivate:
		if a := h.find(ctx.Self()); a != nil && (m.force || m.ticks == a.used.Load()) {
			ctx.Stop(ctx.Self())
		}
	case early:
		if a := h.find(ctx.Self()); a != nil && a.holding.goesEarly(a.holding.oughtToGo) {
			ctx.Stop(ctx.Self())
		}
	case move:
		if a := h.find(ctx.Self()); a != nil && leavesFor(a, m) {
			ctx.Stop(ctx.Self())
		}
	case *actor.Started:
		if a := h.find(ctx.Self()); a != nil {
			a.activate()
		}
	case *actor.Restarting:
		if a := h.find(ctx.Self()); a != nil {
			a.waitInner()
			a.timers.Load().end()
			a.laters.Load().abandonCalls("a panic ended its activation")
			a.state = nil // it panicked: OnDeactivate must not run on a half-changed G
		}
	case *actor.Stopping:
		if a := h.find(ctx.Self()); a != nil {
			h.stopping(ctx, a)
		}
	}
}

// stopping ends the activation, also when OnDeactivate ends the goroutine: protoactor then does not get to the rest.
func (h *kindActor) stopping(ctx actor.Context, a *activation) {
	normal := false
	defer func() {
		if !normal {
			ctx.ActorSystem().ProcessRegistry.Remove(ctx.Self())
		}
		a.ended()
	}()
	a.deactivate()
	normal = true
}

// find returns the activation of a PID: its id is kind/key$serial.
func (h *kindActor) find(pid *actor.PID) *activation {
	key := pid.Id[len(h.kind.def.name)+1:]
	key = key[:strings.LastIndexByte(key, '$')]
	if h.kind.def.Stateless {
		if p, ok := h.kind.pools.Load(key); ok {
			return p.(*pool).find(pid.Id)
		}
		return nil
	}
	s := h.kind.stripeOf(key)
	s.RLock()
	defer s.RUnlock()
	if a := s.activations[key]; a != nil && a.id == pid.Id {
		return a
	}
	return nil
}

var _ core.Work = (*call)(nil)
