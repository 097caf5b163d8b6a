package protoactor

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/raysys/raysys/grains"
)

// activation is one life of an actor, and the process behind its PID. It passes messages on until the actor is told to stop.
// From then on they are dead letters, which their senders hear of at once: proto.Actor would drop them.
type activation struct {
	inner actor.Process // of the actor, as proto.Actor made it
	pid   *actor.PID
	node  *node
	kind  *bound
	grain grains.Grain[anchor]

	mu   sync.RWMutex // held while a message is passed on
	over bool         // nothing is passed on any more
	left bool         // the grain deactivates, and not the actor itself

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
		node: n, kind: b, grain: b.grain.Get(key), ended: make(chan struct{}), abandoned: make(chan struct{}), saves: make(chan save, 1), stored: s,
	}
	identity := func(c actor.Context) { cluster.SetClusterIdentity(c, cluster.NewClusterIdentity(key, b.kind.Kind)) }
	props := b.kind.Props.Clone(actor.WithOnInit(identity, a.enter))
	pid, err := n.system().Root.SpawnNamed(props, fmt.Sprintf("%s/%s@%d", b.kind.Kind, key, serials.Add(1)))
	if err != nil {
		return nil, fmt.Errorf("spawn the actor %s/%s: %w", b.kind.Kind, key, err)
	}
	watcher, _ := n.system().ProcessRegistry.Add(end{a}, pid.Id+"/end")
	a.inner.SendSystemMessage(pid, &actor.Watch{Watcher: watcher})
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
	if _, ok := message.(*actor.PoisonPill); ok {
		a.close(message)
		return
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.over {
		a.node.system().DeadLetter.SendUserMessage(pid, message)
		return
	}
	a.inner.SendUserMessage(pid, unpacked(message))
}

// SendSystemMessage implements actor.Process.
func (a *activation) SendSystemMessage(pid *actor.PID, message any) {
	if _, ok := message.(*actor.Stop); ok {
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
	}
	a.inner.SendSystemMessage(pid, message)
}

// Stop implements actor.Process.
func (a *activation) Stop(pid *actor.PID) { a.SendSystemMessage(pid, &actor.Stop{}) }

// close has the actor stop once it has received all that came before.
func (a *activation) close(pill any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.over = true
		a.inner.SendUserMessage(a.pid, pill)
	}
}

// leave is close by the grain.
func (a *activation) leave() {
	a.mu.Lock()
	a.left = true
	a.mu.Unlock()
	a.close(&actor.PoisonPill{})
}

func (a *activation) closed() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.over
}

func (a *activation) leaving() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.left
}

// end hears that the actor has stopped.
type end struct{ of *activation }

// SendSystemMessage implements actor.Process.
func (e end) SendSystemMessage(pid *actor.PID, message any) {
	if _, ok := message.(*actor.Terminated); !ok {
		return
	}
	a := e.of
	a.mu.Lock()
	a.over = true // its supervisor may have stopped it
	a.mu.Unlock()
	a.node.system().ProcessRegistry.Remove(pid)
	close(a.ended)
	if !a.leaving() { // else this would activate the grain again, while its node drains
		_ = a.kind.gone.Tell(a.node.ctx, a.grain, a.pid.Id) // a node that has ended has no grains either
	}
}

// SendUserMessage implements actor.Process.
func (end) SendUserMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (end) Stop(*actor.PID) {}
