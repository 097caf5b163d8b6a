package protoactor

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/raysys/raysys/grains"
)

// activation is one life of an actor, and the process behind its PID. It passes messages on until the actor is told to stop.
// From then on they are dead letters, which their senders hear of at once: proto.Actor would drop them. After a Stop that goes for
// those in the mailbox too: the Stop reaches the actor behind them, and watch gives them back.
type activation struct {
	inner actor.Process // of the actor, as proto.Actor made it
	pid   *actor.PID
	node  *node
	kind  *bound
	key   string
	grain grains.Grain[anchor]

	handing sync.RWMutex // held while a message is handed over, so that none comes behind the pill
	over    atomic.Bool  // nothing is passed on any more
	left    atomic.Bool  // the grain deactivates, and not the actor itself
	told    atomic.Bool  // to stop at once: what the mailbox holds is given back, and there is no restart
	emptied atomic.Bool  // the mailbox holds nothing before the pill
	prompt  sync.Once    // sets atOnce
	atOnce  bool         // a message to inner runs no code of the program, and waits for nothing

	ended     chan struct{} // closed when the actor has stopped
	abandoned chan struct{} // closed when the grain waits for that no longer
	saves     chan save     // capacity 1: what the actor asks its grain to store
	stored    stored        // the actor's: what it read or saved last
}

// serials number the actors of the process: the PID of one that comes after another must not be the same.
var serials atomic.Uint64

// spawn starts the actor.
func spawn(n *node, b *bound, key string, s stored) (*activation, error) {
	a := &activation{
		node: n, kind: b, key: key, grain: b.grain.Get(key), ended: make(chan struct{}), abandoned: make(chan struct{}), saves: make(chan save, 1), stored: s,
	}
	identity := func(c actor.Context) { cluster.SetClusterIdentity(c, cluster.NewClusterIdentity(key, b.kind.Kind)) }
	props := b.kind.Props.Clone(actor.WithOnInit(identity, a.enter), actor.WithReceiverMiddleware(a.watch))
	_, err := n.system().Root.SpawnNamed(props, fmt.Sprintf("%s/%s@%d", b.kind.Kind, key, serials.Add(1)))
	if err != nil {
		return nil, fmt.Errorf("spawn the actor %s/%s: %w", b.kind.Kind, key, err)
	}
	return a, nil
}

// enter takes the place of the actor's own process, before anybody knows the PID.
func (a *activation) enter(c actor.Context) {
	a.pid = c.Self()
	bucket := c.ActorSystem().ProcessRegistry.LocalPIDs.GetBucket(a.pid.Id)
	own, _ := bucket.Get(a.pid.Id)
	a.inner = own.(actor.Process)
	bucket.Set(a.pid.Id, a)
}

// SendUserMessage implements actor.Process.
func (a *activation) SendUserMessage(pid *actor.PID, message any) {
	switch {
	case isPill(message):
		a.close()
	case !a.pass(pid, message):
		a.node.system().DeadLetter.SendUserMessage(pid, message)
	}
}

func isPill(message any) bool {
	_, ok := actor.UnwrapEnvelopeMessage(message).(*actor.PoisonPill)
	return ok
}

// pass puts a message into the mailbox, unless it is closed.
func (a *activation) pass(pid *actor.PID, message any) bool {
	if a.over.Load() { // close may wait for the lock
		return false
	}
	a.handing.RLock()
	defer a.handing.RUnlock()
	if a.over.Load() {
		return false
	}
	a.inner.SendUserMessage(pid, unpacked(message))
	return true
}

// Offer is called by package remote: a message is taken at once, or not at all.
func (a *activation) Offer(pid *actor.PID, message any, system bool, atOnce func(*actor.ActorProcess) bool) bool {
	a.prompt.Do(func() {
		p, ok := a.inner.(*actor.ActorProcess)
		a.atOnce = ok && atOnce(p)
	})
	switch {
	case !a.atOnce:
		return false
	case system:
		return a.passSystem(pid, message)
	case isPill(message):
		a.close()
		return true
	}
	return a.pass(pid, message)
}

// SendSystemMessage implements actor.Process.
func (a *activation) SendSystemMessage(pid *actor.PID, message any) {
	if !a.passSystem(pid, message) {
		a.node.system().DeadLetter.SendSystemMessage(pid, message)
	}
}

// passSystem is pass for a system message: it returns false where nothing runs any more, such as what ReenterAfter was given.
func (a *activation) passSystem(pid *actor.PID, message any) bool {
	select {
	case <-a.ended:
		return false
	default:
	}
	switch message.(type) {
	case *actor.Stop:
		if !a.emptied.Load() {
			a.told.Store(true)
			a.close()
			message = &actor.ResumeMailbox{} // a supervisor tells it after a panic
		}
	case *actor.Restart:
		if a.told.Load() {
			return true // it would live on, or again
		}
	}
	a.inner.SendSystemMessage(pid, message)
	if _, ok := message.(*actor.SuspendMailbox); ok && a.told.Load() { // the panic came behind the Stop
		a.inner.SendSystemMessage(pid, &actor.ResumeMailbox{})
	}
	return true
}

// Stop implements actor.Process.
func (a *activation) Stop(pid *actor.PID) { a.SendSystemMessage(pid, &actor.Stop{}) }

// close has the actor stop once it has received all that came before. It waits for nothing: the mailbox may be full.
func (a *activation) close() {
	if a.over.Swap(true) {
		return
	}
	go func() {
		a.handing.Lock() // what came before is in the mailbox
		defer a.handing.Unlock()
		a.inner.SendUserMessage(a.pid, &actor.PoisonPill{})
	}()
}

// leave is close by the grain.
func (a *activation) leave() {
	a.left.Store(true)
	a.close()
}

// watch is the middleware next to the actor. It hears of the actor's end, keeps a panic there from restarting what is to end, and
// gives back what the mailbox of an actor holds that was told to stop.
func (a *activation) watch(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, m *actor.MessageEnvelope) {
		switch m.Message.(type) {
		case *actor.PoisonPill:
			a.emptied.Store(true)
		case *actor.Stopping:
			a.over.Store(true) // its supervisor may stop it
			a.told.Store(true)
			defer a.survive("Stopping")
		case *actor.Stopped:
			defer a.end()
			defer a.survive("Stopped")
		default:
			if a.told.Load() && !ofLife(m.Message) {
				a.node.system().DeadLetter.SendUserMessage(a.pid, m)
				return
			}
		}
		next(c, m)
	}
}

// ofLife reports whether a message is one of proto.Actor's own on the life of an actor.
func ofLife(message any) bool {
	switch message.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, *cluster.ClusterInit:
		return true
	}
	return false
}

// survive says in the log that the actor panicked.
func (a *activation) survive(in string) {
	if p := recover(); p != nil {
		a.node.log().Error("an actor panicked as it stopped", slog.String("pid", a.pid.String()), slog.String("in", in), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// end notes that the actor has stopped, and its children before it.
func (a *activation) end() {
	close(a.ended)
	a.node.pids.remove(a.key, a.kind.kind.Kind, a.pid)
	if !a.left.Load() { // else this would activate the grain again, while its node drains
		_ = a.kind.gone.Tell(a.node.ctx, a.grain, a.pid.Id) // a node that has ended has no grains either
	}
}
