package grainengine

import (
	"errors"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// maxTries bounds how often a call is sent, and how often a route asks, in vain. With the pauses between them that is
// about seven seconds; the caller's deadline may end it before.
const maxTries = 16

// keptRoutes bounds the routes in one stripe of a kind's table: 262,144 per kind.
const keptRoutes = 4096

// statelessCalls is the number of calls to a key of a stateless kind after which the registry is asked for a further
// node.
const statelessCalls = 256

// pendingCall is a call on its way to an activation that is not in this node's activation table: *outboundCall, a call
// of this node, or *inboundCall, one that arrived from another.
type pendingCall interface {
	record() *call
	fail(err error)
}

type routeState uint8

const (
	routeFresh     routeState = iota // nothing was asked yet
	routeAsking                      // the registry, or for a connection; or a pause before that
	routeOpen                        // the grain is on another node
	routeReleasing                   // it was here, and its placement is being removed
	routeGone                        // taken out of the table: look again
)

// route is what a node knows of a grain that is not active here. Of activation and route a key has at most one, in the
// same stripe of the table. Calls that cannot go on yet queue here, in order.
type route struct {
	kind  *boundKind
	key   string
	alarm core.Alarm // of the pause

	mu       sync.Mutex // guards the rest; taken after the stripe's lock; no future settles under it
	state    routeState
	queue    []pendingCall
	place    graindir.Place // open: where calls go
	peer     *peer          // open
	avoid    graindir.Place // asking: found wrong; releasing: being removed
	hint     graindir.Place // asking: said to be right
	ask      graindir.Token // asking: to be confirmed; zero to locate
	tries    int            // in vain, since the last call went out
	parting  *parting       // releasing: of whom wait for the end of that, if any
	moves    bool           // releasing: the grain waited here for resources, and goes to where there is room
	rotation *rotation      // of a stateless kind only
	nodeless bool           // its calls wait for a node with what no node has
	// nodes are the nodes that the conditions of the first call mean, and since is when that was asked first; both until it is located.
	nodes []core.NodeCondition
	since int64
	// bundle is the one that the grain was in when this node heard of it last, or is to be put into; zero for none.
	bundle core.Bundle
}

// lookup finds the activation or the route of a key.
func (k *boundKind) lookup(key string) (*activation, *route) {
	s := k.stripeOf(key)
	s.RLock()
	defer s.RUnlock()
	return s.activations[key], s.routes[key]
}

// routeFor makes the route of a key that has none, and no activation.
func (k *boundKind) routeFor(key string) (a *activation, r *route) {
	s := k.stripeOf(key)
	s.Lock()
	defer s.Unlock()
	if a, r = s.activations[key], s.routes[key]; a != nil || r != nil {
		return a, r
	}
	r = &route{kind: k, key: key}
	if k.def.Stateless {
		r.rotation = &rotation{}
	}
	s.addRoute(r)
	return nil, r
}

// addRoute enters r, for which it forgets another when there are too many. The caller has locked the stripe.
func (s *stripe) addRoute(r *route) {
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

// dropIdle ends the use of a route in which no call waits.
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

// send queues a call of this node at its grain, or sends it to the grain's node. o is its outbound part if it has one.
// On an error the call was not queued.
func (k *boundKind) send(key string, c *call, o *outboundCall) error {
	for {
		a, r := k.lookup(key)
		if a == nil && r == nil {
			if k.engine.closed.Load() {
				return raysys.ErrClosed
			}
			a, r = k.routeFor(key)
		}
		if a != nil {
			m := &c.mail
			if o != nil {
				m = &mail{msg: c} // the call's own may still be linked in the mailbox of an activation that is gone
			}
			ok, err := a.accept(c, m)
			if ok && err == nil && o != nil {
				o.done()
			}
			if ok {
				return err
			}
			continue
		}
		if o == nil {
			o = k.outboundOf(key, c)
		}
		if held, err := o.hold(); held || err != nil {
			return err
		}
		if ok, err := r.accept(o); ok {
			return err
		}
	}
}

// accept takes a call of this node; false when the route is gone.
func (r *route) accept(o *outboundCall) (ok bool, err error) {
	r.mu.Lock()
	switch r.state {
	case routeGone:
		r.mu.Unlock()
		return false, nil
	case routeOpen:
		if o.to != nil || r.seeksEach() {
			r.beginLocked(o)
			return true, nil
		}
		err := o.send(r.peer, r.place)
		if err == nil {
			r.sentLocked()
		}
		if !errors.Is(err, raysys.ErrNotDelivered) {
			r.mu.Unlock()
			return true, err
		}
		r.avoid, r.ask = r.place, graindir.Token{}
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
		if !p.record().Future.Settled() {
			kept = append(kept, p)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
}

// sentLocked counts a call that went out.
func (r *route) sentLocked() {
	r.tries = 0
	if r.rotation == nil {
		return
	}
	if !r.seeksEach() {
		if s, ok := r.rotation.nextNode(); ok {
			r.place, r.peer = s.place, s.peer
			return
		}
	}
	r.state, r.peer, r.avoid, r.ask = routeFresh, nil, graindir.Place{}, graindir.Token{}
}

// remove takes the route out of the table and returns the calls in it.
func (r *route) remove() []pendingCall {
	s := r.kind.stripeOf(r.key)
	s.Lock()
	defer s.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(s)
}

// removeIdle is remove if no call waits in it.
func (r *route) removeIdle() bool {
	s := r.kind.stripeOf(r.key)
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

// removeLocked is remove for a caller that has locked both.
func (r *route) removeLocked(s *stripe) []pendingCall {
	queue := r.queue
	r.queue, r.state = nil, routeGone
	if s.routes[r.key] == r {
		delete(s.routes, r.key)
	}
	return queue
}
