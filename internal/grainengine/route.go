package grainengine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// maxTries bounds how often a call is sent, and how often a route asks, in vain. With the pauses between them that is
// about seven seconds; the caller's deadline may end it before.
const maxTries = 16

// keptRoutes bounds the routes that one shard of a kind's directory remembers: 262,144 per kind.
const keptRoutes = 4096

// statelessCalls is after how many calls to a key of a stateless kind the registry is asked whether there is a node
// more.
const statelessCalls = 256

// pendingCall is a call on its way to an activation that is not in this node's directory: *outgoing, a call of this
// node, or *inboundCall, one that arrived from another.
type pendingCall interface {
	turn() turn
	fail(err error)
}

type routeState uint8

const (
	routeFresh     routeState = iota // nobody has asked
	routeAsking                      // the registry, or for a connection; or a pause before that
	routeOpen                        // the grain is on another node
	routeReleasing                   // it was here, and its placement is being removed
	routeGone                        // taken out of the directory: look again
)

// route is what a node knows of a grain that is not active here. Of activation and route a key has at most one, in the
// same shard of the directory. Calls that cannot go on yet queue here, in order.
type route struct {
	kind  *boundKind
	key   string
	alarm core.Alarm // of the pause

	mu    sync.Mutex // guards the rest; taken after the shard's lock; no future settles under it
	state routeState
	queue []pendingCall
	place Place    // open: where calls go
	peer  *farPeer // open
	avoid Place    // asking: found wrong; releasing: being removed
	hint  Place    // asking: said to be right
	ask   Token    // asking: to be confirmed; zero to locate
	tries int      // in vain, since the last call went out
	ring  *ring    // of a stateless kind only
}

// lookup finds the activation or the route of a key.
func (k *boundKind) lookup(key string) (*activation, *route) {
	s := k.shard(key)
	s.RLock()
	defer s.RUnlock()
	return s.m[key], s.routes[key]
}

// routeFor makes the route of a key that has none, and no activation.
func (k *boundKind) routeFor(key string) (a *activation, r *route) {
	s := k.shard(key)
	s.Lock()
	defer s.Unlock()
	if a, r = s.m[key], s.routes[key]; a != nil || r != nil {
		return a, r
	}
	r = &route{kind: k, key: key}
	if k.def.Stateless {
		r.ring = &ring{}
	}
	s.addRoute(r)
	return nil, r
}

// addRoute enters r, for which it forgets another when there are too many. The caller holds the shard's lock.
func (s *shard) addRoute(r *route) {
	if s.routes == nil {
		s.routes = map[string]*route{}
	}
	if len(s.routes) >= keptRoutes {
		looked := 0
		for key, old := range s.routes { // in random order
			if old.dropIdle() {
				delete(s.routes, key)
				break
			}
			if looked++; looked == 8 {
				break
			}
		}
	}
	s.routes[r.key] = r
}

// dropIdle takes a route that nobody waits in out of use.
func (r *route) dropIdle() bool {
	if !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	if r.state != routeOpen && r.state != routeFresh {
		return false
	}
	r.state = routeGone
	return true
}

// send gives a call of this node to its grain, wherever that is. o is its outgoing part if it has one. On an error the
// call was not queued.
func (k *boundKind) send(key string, c turn, o *outgoing) error {
	for {
		a, r := k.lookup(key)
		if a == nil && r == nil {
			if k.engine.closed.Load() {
				return raysys.ErrClosed
			}
			a, r = k.routeFor(key)
		}
		if a != nil {
			entry := c.node()
			if o != nil {
				entry = &mail{msg: c} // its own may still be linked in the mailbox of an activation that is gone
			}
			ok, err := a.accept(c, entry)
			if ok && err == nil && o != nil {
				o.over()
			}
			if ok {
				return err
			}
			continue
		}
		if o == nil {
			o = k.outgoingOf(key, c)
		}
		if ok, err := r.accept(o); ok {
			return err
		}
	}
}

// accept queues c by entry; false when the activation has closed this moment.
func (a *activation) accept(c turn, entry *mail) (ok bool, err error) {
	ok, closed := a.reserve(a.kind.def.Mailbox)
	switch {
	case ok:
		c.place(a) // not sooner: who finds the call here may rely on it being linked (upTo)
		a.put(entry)
		a.arrived(c)
		if a.more != nil {
			a.cameBack(c)
		}
		return true, nil
	case closed:
		if a.kind.engine.closed.Load() {
			return true, raysys.ErrClosed
		}
		return false, nil
	}
	return true, overloaded(a.kind.def.Mailbox)
}

func overloaded(limit int) error {
	return fmt.Errorf("%w: the mailbox holds %d calls: call less often, wait for results, or raise grains.Mailbox",
		raysys.ErrOverloaded, limit)
}

// accept takes a call of this node; false when the route is gone.
func (r *route) accept(o *outgoing) (ok bool, err error) {
	r.mu.Lock()
	switch r.state {
	case routeGone:
		r.mu.Unlock()
		return false, nil
	case routeOpen:
		err := o.send(r.peer, r.place)
		if err == nil {
			r.sentLocked()
		}
		if !errors.Is(err, raysys.ErrNotDelivered) {
			r.mu.Unlock()
			return true, err
		}
		r.avoid, r.ask = r.place, Token{}
		r.beginLocked(o)
		return true, nil
	case routeFresh:
		r.beginLocked(o)
		return true, nil
	}
	defer r.mu.Unlock()
	return true, r.queueLocked(o)
}

func (r *route) queueLocked(p pendingCall) error {
	if len(r.queue) >= r.kind.def.Mailbox {
		r.sweepLocked()
		if len(r.queue) >= r.kind.def.Mailbox {
			return overloaded(r.kind.def.Mailbox)
		}
	}
	r.queue = append(r.queue, p)
	return nil
}

// sweepLocked drops calls that were given up.
func (r *route) sweepLocked() {
	kept := r.queue[:0]
	for _, p := range r.queue {
		if !p.turn().future().Settled() {
			kept = append(kept, p)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
}

// sentLocked counts a call that went out.
func (r *route) sentLocked() {
	r.tries = 0
	if r.ring == nil {
		return
	}
	if s, ok := r.ring.turn(); ok {
		r.place, r.peer = s.place, s.peer
		return
	}
	r.state, r.peer, r.avoid, r.ask = routeFresh, nil, Place{}, Token{}
}

// remove takes the route out of the directory and returns who waits.
func (r *route) remove() []pendingCall {
	s := r.kind.shard(r.key)
	s.Lock()
	defer s.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(s)
}

// removeIdle is remove if nobody waits.
func (r *route) removeIdle() bool {
	s := r.kind.shard(r.key)
	s.Lock()
	defer s.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked()
	if len(r.queue) > 0 {
		return false
	}
	r.removeLocked(s)
	return true
}

// removeLocked is remove for the holder of both locks.
func (r *route) removeLocked(s *shard) []pendingCall {
	queue := r.queue
	r.queue, r.state = nil, routeGone
	if s.routes[r.key] == r {
		delete(s.routes, r.key)
	}
	return queue
}
