package grainengine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
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
	moves    bool           // releasing: the grain waited here for resources, or is to even out the load
	left     *peer          // asking: the node that the grain has left, while calls may be there
	leftAt   int64          // when that was, on the runtime's clock
	rotation *rotation      // of a stateless kind only
	nodeless bool           // its calls wait for a node with what no node has
	// nodes are the nodes that the conditions of the first call mean, and since is when that was asked first; both until it is located.
	nodes []core.NodeCondition
	since int64
	// bundle is the one that the grain was in when this node heard of it last, or is to be put into; zero for none.
	bundle core.Bundle
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
	at := len(r.queue)
	if o, own := p.(*outboundCall); own && o.wasSent() { // later calls of its turn go after it (rule C5)
		if later := slices.IndexFunc(r.queue, o.precedes); later >= 0 {
			at = later
		}
	}
	r.queue = slices.Insert(r.queue, at, p)
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

// beginLocked queues p, as the first, and asks where the grain is; it unlocks.
func (r *route) beginLocked(p pendingCall) {
	r.state, r.peer = routeAsking, nil
	r.queue = append(r.queue, p)
	r.askLocked()
}

// askLocked asks where the grain is, after a pause where that was in vain before; it unlocks.
func (r *route) askLocked() {
	pause := pauseBefore(r.tries)
	r.mu.Unlock()
	if pause == 0 {
		r.inquire()
		return
	}
	r.after(pause, r.inquire)
}

func pauseBefore(tries int) time.Duration {
	if tries < 2 {
		return 0
	}
	return time.Millisecond << min(tries-1, 9)
}

// after calls f when the pause is over. A route has one alarm, since it does one thing at a time.
func (r *route) after(pause time.Duration, f func()) {
	rt := r.kind.engine.cfg.Hooks.Runtime()
	r.alarm.At, r.alarm.Ring = rt.Now()+int64(pause), f
	rt.SetAlarm(&r.alarm)
}

func (r *route) id() graindir.ID { return graindir.ID{Kind: r.kind.def.name, Key: r.key} }

// inquire asks the registry. The caller has nothing locked.
func (r *route) inquire() {
	e := r.kind.engine
	r.mu.Lock()
	if r.state != routeAsking {
		r.mu.Unlock()
		return
	}
	if r.left != nil && awaitsRefusals(r) {
		r.mu.Unlock()
		r.after(time.Millisecond, r.inquire)
		return
	}
	hint := r.hint
	r.hint = graindir.Place{}
	if !hint.IsZero() && e.isSelf(hint) {
		r.ask = hint.Token
	}
	avoid, ask := r.avoid, r.ask
	want := r.wantedLocked()
	known := r.bundle
	if hint.IsZero() && ask.IsZero() {
		r.bundle = want.Bundle
	}
	if r.rotation != nil {
		if r.rotation.one = !spreads(want.Strategy); !r.rotation.one {
			want.Avoid = r.rotation.avoid(avoid)
		}
		hint = r.roomLocked()
		r.rotation.found = !hint.IsZero()
	}
	seeks := hint.IsZero() && r.seeksEach()
	r.mu.Unlock()
	if e.closed.Load() {
		r.end(raysys.ErrClosed)
		return
	}
	if !want.Stateless {
		if err := e.cfg.Cluster.Suspended(); err != nil {
			r.end(err)
			return
		}
	}
	if seeks {
		hint = r.seek(want, avoid)
	}
	switch {
	case !ask.IsZero():
		e.cfg.Cluster.Confirm(r.id(), ask, r.found)
	case !hint.IsZero():
		r.found(graindir.Placed{Place: hint, Bundle: known}, nil)
	default:
		if want.Bundle.Group != "" {
			var err error
			want.At, err = e.cfg.Bundle(r.id(), want.Bundle, want.Needs)
			switch {
			case errors.Is(err, raysys.ErrDeviceSick): // the grain may be active, with what it had before
				want.At.Incarnation = 0 // where it is not placed
				e.cfg.Cluster.Locate(r.id(), want, avoid, func(p graindir.Placed, none error) {
					if !errors.Is(none, raysys.ErrOverloaded) {
						err = none
					}
					r.found(p, err)
				})
				return
			case err != nil:
				r.found(graindir.Placed{}, err)
				return
			}
		}
		if len(want.Conditions) > 0 && !r.resolves(&want) {
			return
		}
		e.cfg.Cluster.Locate(r.id(), want, avoid, r.found)
	}
}

// wantedLocked is what the kind asks of a node, with the options of the first call that waits.
func (r *route) wantedLocked() graindir.Wanted {
	w := r.kind.def.wanted()
	w.Bundle = r.bundle
	for _, p := range r.queue {
		if v, ok := p.(*inboundCall); ok {
			w.Bound = w.Bound || v.bound
		}
		if o, ok := p.(*outboundCall); ok {
			f := o.call.facts()
			if f.strategy != "" {
				w.Strategy = f.strategy
			}
			if len(f.labels) > 0 {
				merged := maps.Clone(f.labels)
				maps.Copy(merged, w.Labels) // the kind's own are not the call's to change
				w.Labels = merged
			}
			if b := o.call.bundle(); b.Group != "" {
				w.Bundle = b
			}
			if w.Conditions = o.call.conditions(); len(w.Conditions) > 0 {
				w.Nodes = r.nodes
			}
			break
		}
	}
	return w
}

// found is the registry's answer.
func (r *route) found(p graindir.Placed, err error) {
	e := r.kind.engine
	if err == nil {
		r.awaitsNoMore()
		r.resolved()
		if p.Node != "" {
			r.mu.Lock()
			r.bundle = p.Bundle
			r.mu.Unlock()
		}
	}
	switch {
	case err != nil && (r.withoutBundle(err) || r.withoutNode(err)):
	case err != nil:
		r.retry(err)
	case p.Node == "":
		r.nowhere()
	case e.isSelf(p.Place):
		r.here(p)
	default:
		r.elsewhere(p.Place)
	}
}

// retry asks again after a failure that may pass, a bounded number of times.
func (r *route) retry(err error) {
	if errors.Is(err, raysys.ErrNoCapacity) && r.awaitNode(err) {
		return
	}
	r.awaitsNoMore()
	if !raysys.Retriable(err) {
		r.end(err)
		return
	}
	if why := r.over(); why != nil {
		if !errors.Is(err, why) {
			err = fmt.Errorf("%w: %w", why, err)
		}
		r.end(err)
		return
	}
	r.mu.Lock()
	r.sweepLocked()
	if r.tries++; r.tries > maxTries || len(r.queue) == 0 {
		r.mu.Unlock()
		r.end(err)
		return
	}
	r.askLocked()
}

// over is why nothing is asked again: this node has ended, or is suspended.
func (r *route) over() error {
	e := r.kind.engine
	if e.closed.Load() {
		return raysys.ErrClosed
	}
	if r.kind.def.Stateless {
		return nil
	}
	return e.cfg.Cluster.Suspended()
}

// nodePause is how often a grain that no node can have is looked up again for the calls that wait for one: the leader of its
// shard, which knows the nodes, places it, and may learn of a newcomer later than this node.
const nodePause = 250 * time.Millisecond

// awaitNode has the calls ask again later that wait for a node with what no node has, and fails the others; false when none
// waits.
func (r *route) awaitNode(err error) bool {
	e := r.kind.engine
	r.mu.Lock()
	r.sweepLocked()
	kept, failed := split(r.queue, func(o *outboundCall) bool {
		return r.kind.waitsFor(o.call) && !o.late(e.cfg.Now())
	})
	if kept == nil || r.state != routeAsking || e.closed.Load() {
		r.mu.Unlock()
		return false
	}
	r.queue, r.tries = kept, 0
	r.mu.Unlock()
	failCalls(r, failed, err)
	r.awaits()
	r.after(nodePause, r.inquire)
	return true
}

// split has the calls of this node that meet a condition, and all others.
func split(queue []pendingCall, meets func(*outboundCall) bool) (list, others []pendingCall) {
	for _, p := range queue {
		if o, own := p.(*outboundCall); own && meets(o) {
			list = append(list, p)
		} else {
			others = append(others, p)
		}
	}
	return list, others
}

// failCalls fails calls that r had.
func failCalls(r *route, list []pendingCall, err error) {
	for _, p := range list {
		p.fail(fmt.Errorf("find grain %s: %w", shown(r.id().String()), err))
	}
}

// end takes the route out of the table and fails the calls in it.
func (r *route) end(err error) {
	r.awaitsNoMore()
	for _, p := range r.remove() {
		if v, ok := p.(*inboundCall); ok && errors.Is(err, raysys.ErrClosed) {
			v.refuse(graindir.Place{}) // this node ends; the caller does not
			continue
		}
		p.fail(fmt.Errorf("find grain %s: %w", shown(r.id().String()), err))
	}
}

// turnAway refuses the inbound calls in the queue: the grain is at p, or, where p is zero, their nodes are to ask the
// registry; one with a token alone says that the grain waited here under it, and moves.
func (r *route) turnAway(p graindir.Place) {
	r.mu.Lock()
	var inbound []*inboundCall
	kept := r.queue[:0]
	for _, q := range r.queue {
		if v, ok := q.(*inboundCall); ok {
			inbound = append(inbound, v)
		} else {
			kept = append(kept, q)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
	r.mu.Unlock()
	for _, v := range inbound {
		v.refuse(p)
	}
}

// nowhere: the registry has no placement of the grain.
func (r *route) nowhere() {
	r.turnAway(graindir.Place{})
	if r.removeIdle() {
		return
	}
	r.mu.Lock()
	if r.ask.IsZero() { // Locate always names a place
		r.mu.Unlock()
		r.retry(fmt.Errorf("the registry names no place: %w", raysys.ErrNotDelivered))
		return
	}
	r.ask = graindir.Token{}
	r.askLocked()
}

// refusalsFor is how long a route waits at most for calls to come back from the node that the grain has left.
const refusalsFor = time.Second

// awaitsRefusals reports whether calls of this node are on the way to where the grain was, and will come back. Calls to
// the new place wait for them: else they would come before earlier calls of their turns (rule C5). The caller has
// locked r.
func awaitsRefusals(r *route) (waits bool) {
	if r.kind.engine.cfg.Now()-r.leftAt < int64(refusalsFor) {
		r.left.sent.Each(func(_ uint64, o *outboundCall) {
			waits = waits || o.kind == r.kind && o.key == r.key
		})
		waits = waits || r.left.answers.Load() > 0
	}
	if !waits {
		r.left = nil
	}
	return waits
}

// here: the grain is this node's, which activates it under that very token.
func (r *route) here(p graindir.Placed) {
	k := r.kind
	e := k.engine
	var full error
	if p.Bundle.Group == "" && !k.def.Stateless {
		full = fullNow(e)
	}
	switch {
	case e.closed.Load():
		r.end(raysys.ErrClosed)
		return
	case k.def.Stateless:
		for _, q := range r.remove() {
			if err := k.pooled(r.key, q.record()); err != nil {
				q.fail(err)
			} else if o, ok := q.(*outboundCall); ok {
				o.done()
			}
		}
		return
	case e.draining.Load(), k.def.holds() && p.Bundle.Group == "" && r.refused(), full != nil && hasOther(r):
		r.mu.Lock()
		r.state, r.avoid = routeReleasing, p.Place
		r.tries++
		r.mu.Unlock()
		e.releasing.Add(1)
		r.release()
		return
	case full != nil:
		r.end(full)
		return
	}
	s := k.stripeOf(r.key)
	s.Lock()
	if e.closed.Load() || e.draining.Load() { // Close and Drain look at every stripe after they set these
		s.Unlock()
		r.here(p)
		return
	}
	r.mu.Lock()
	a := newActivation(k, r.key, p.Bundle)
	a.tenure.token, a.tenure.bound = p.Token, slices.ContainsFunc(r.queue, bindsGrain)
	if k.def.holds() {
		a.tenure.wanted = new(r.wantedLocked())
	}
	queue := r.removeLocked(s)
	r.mu.Unlock()
	for _, q := range queue {
		t := q.record()
		if o, ok := q.(*outboundCall); ok {
			o.done()
		}
		t.queueAt(a)
		// The route was bounded like the mailbox. The call's own mail may still be linked in an earlier one.
		a.pushed.Add(1)
		a.put(&mail{msg: t})
	}
	if s.activations == nil {
		s.activations = map[string]*activation{}
	}
	s.activations[r.key] = a
	first := k.live.Add(1) == 1
	s.Unlock()
	if first {
		k.arm()
	}
	a.spawn()
}

// refused reports whether the node refuses the grain, for want of resources: it is placed anew.
func (r *route) refused() bool {
	r.mu.Lock()
	w := r.wantedLocked()
	r.mu.Unlock()
	return r.kind.goesElsewhere(r.id(), w)
}

// hasOther reports whether another node takes the grain.
func hasOther(r *route) bool {
	r.mu.Lock()
	w := r.wantedLocked()
	r.mu.Unlock()
	return !r.kind.engine.cfg.Cluster.Elsewhere(r.id(), w, false).IsZero()
}

// elsewhere: the grain is on another node.
func (r *route) elsewhere(p graindir.Place) {
	r.turnAway(p)
	if !r.removeIdle() {
		reach(r, p)
	}
}

// reach opens the route to a node, and sends what waits.
func reach(r *route, p graindir.Place) {
	c := r.kind.engine.cfg.Cluster
	if wp := c.Peer(p.NodeKey); wp != nil {
		r.connected(p, wp, nil)
		return
	}
	c.Connect(p.NodeKey, func(wp wire.Peer, err error) { r.connected(p, wp, err) })
}

// connected opens the route and sends what waits.
func (r *route) connected(at graindir.Place, wp wire.Peer, err error) {
	p := r.kind.engine.peer(wp)
	if err == nil && (p == nil || p.gone.Load()) {
		err = fmt.Errorf("node %s is gone: %w", at.Node, raysys.ErrNotDelivered)
	}
	r.mu.Lock()
	if r.state != routeAsking {
		r.mu.Unlock()
		return // the engine closed meanwhile
	}
	r.avoid, r.ask = at, graindir.Token{}
	if err != nil {
		r.mu.Unlock()
		if !raysys.Retriable(err) {
			err = fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)
		}
		r.retry(fmt.Errorf("reach node %s: %w", at.Node, err))
		return
	}
	type failure struct {
		o   *outboundCall
		err error
	}
	var failed []failure
	var late []*inboundCall
	r.state, r.place, r.peer = routeOpen, at, p
	if r.rotation != nil {
		s := r.rotation.add(at, p)
		r.place, r.peer = s.place, s.peer
	}
	for len(r.queue) > 0 && r.state == routeOpen {
		o, ok := r.queue[0].(*outboundCall)
		if !ok {
			late = append(late, r.queue[0].(*inboundCall))
			r.queue = r.queue[1:]
			continue
		}
		if err = o.send(r.peer, r.place); errors.Is(err, raysys.ErrNotDelivered) {
			r.state, r.peer, r.avoid = routeAsking, nil, r.place
			break
		}
		r.queue = r.queue[1:]
		if err != nil {
			failed = append(failed, failure{o, err})
		} else {
			r.sentLocked()
		}
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
	again, further := r.state == routeAsking, r.state == routeFresh && len(r.queue) > 0
	if further {
		r.state = routeAsking
	}
	r.mu.Unlock()
	for _, v := range late {
		v.refuse(at)
	}
	for _, f := range failed {
		f.o.fail(f.err)
	}
	switch {
	case again:
		r.retry(err)
	case further && r.seeksEach(): // each call asks, and there may be thousands
		r.kind.engine.cfg.Pool.Go(goroutines.Func(r.inquire))
	case further: // the rest of the queue is for further nodes too
		r.inquire()
	}
}

// The call that has a grain activated may have conditions for its node, as it may have a bundle. This node finds out which nodes they
// mean, by Config.Conditions, and the leader of the grain's shard places it by their names. A grain that is active stays where it is.

// resolves fills in the nodes that the conditions mean. False: they are not known yet, and the route asks again later; or they never
// will be.
func (r *route) resolves(want *graindir.Wanted) bool {
	e := r.kind.engine
	r.mu.Lock()
	if r.since == 0 {
		r.since = e.cfg.Now()
	}
	since := r.since
	r.mu.Unlock()
	nodes, known, err := e.cfg.Conditions(want.Conditions, core.GrainName(r.id()), since, r.askAgain)
	switch {
	case err != nil:
		r.found(graindir.Placed{}, err)
	case known:
		want.Nodes = nodes
		r.mu.Lock()
		r.nodes = nodes
		r.mu.Unlock()
		return true
	}
	return false
}

// askAgain goes on with the calls that are not over.
func (r *route) askAgain() {
	e := r.kind.engine
	r.mu.Lock()
	if r.state != routeAsking {
		r.mu.Unlock()
		return
	}
	late, kept := split(r.queue, func(o *outboundCall) bool { return o.late(e.cfg.Now()) })
	r.queue = kept
	r.mu.Unlock()
	failCalls(r, late, fmt.Errorf("%w: it is not known yet where the conditions of its call have it", raysys.ErrDeadline))
	if !r.removeIdle() {
		r.inquire()
	}
}

// resolved is called when the grain is located.
func (r *route) resolved() {
	r.mu.Lock()
	r.since = 0
	r.mu.Unlock()
}

// withoutNode fails the calls with conditions when no node meets them, and goes on with the others; false where that is not why, or no
// other is left, or some wait for a node.
func (r *route) withoutNode(err error) bool {
	e := r.kind.engine
	if raysys.Retriable(err) || errors.Is(err, raysys.ErrClosed) {
		return false
	}
	r.mu.Lock()
	r.sweepLocked()
	var kept, failed []pendingCall
	for _, p := range r.queue {
		o, own := p.(*outboundCall)
		switch {
		case !own || len(o.call.conditions()) == 0:
			kept = append(kept, p)
		case errors.Is(err, raysys.ErrNoCapacity) && r.kind.waitsFor(o.call):
			r.mu.Unlock()
			return false // see awaitNode
		default:
			failed = append(failed, p)
		}
	}
	if failed == nil || kept == nil || r.state != routeAsking || e.closed.Load() {
		r.mu.Unlock()
		return false
	}
	r.queue, r.tries, r.since = kept, 0, 0
	r.mu.Unlock()
	failCalls(r, failed, err)
	r.inquire()
	return true
}

// Nodeless is a grain whose calls wait for a node with what no node has, or for the node of its bundle.
type Nodeless struct {
	Resources core.Resources
	Labels    map[string]string
	Group     string // the placement group whose bundle has no node yet; "" for a grain outside of groups
	Since     int64  // on the runtime's clock
}

// awaits notes that the calls of r wait for a node; since the first time if it has been noted before.
func (r *route) awaits() {
	r.mu.Lock()
	w := r.wantedLocked()
	r.nodeless = true
	r.mu.Unlock()
	e := r.kind.engine
	e.nodeless.LoadOrStore(r, Nodeless{Resources: w.Needs, Labels: w.Labels, Group: w.Bundle.Group, Since: e.cfg.Now()})
}

// awaitsNoMore undoes awaits.
func (r *route) awaitsNoMore() {
	r.mu.Lock()
	was := r.nodeless
	r.nodeless = false
	r.mu.Unlock()
	if was {
		r.kind.engine.nodeless.Delete(r)
	}
}

// withoutBundle sees to a route that was to put its grain into a bundle, and could not; false where that has another reason. While
// the bundle has no node the calls wait. Where it never has one those fail that name it, and the rest goes on without it. Where its devices are
// sick those wait that wait for resources, and the rest with them.
func (r *route) withoutBundle(err error) bool {
	e := r.kind.engine
	again := false // some wait for devices that are sick
	waits, never := errors.Is(err, raysys.ErrOverloaded), errors.Is(err, raysys.ErrGroupRemoved) || errors.Is(err, raysys.ErrBadOption) || errors.Is(err, raysys.ErrNoCapacity)
	r.mu.Lock()
	in := r.bundle
	if in.Group == "" || r.state != routeAsking || e.closed.Load() || !waits && !never {
		r.mu.Unlock()
		return false
	}
	r.sweepLocked()
	sick := never && errors.Is(err, raysys.ErrDeviceSick)
	var kept, failed []pendingCall
	for _, p := range r.queue {
		o, own := p.(*outboundCall)
		waiting := own && sick && o.call.bundle() == in && r.kind.waitsFor(o.call) && !o.late(e.cfg.Now())
		if own && !waiting && (never && o.call.bundle() == in || waits && o.late(e.cfg.Now())) {
			failed = append(failed, p)
		} else {
			kept = append(kept, p)
		}
		again = again || waiting
	}
	r.queue, r.tries = kept, 0
	if never && !again {
		r.bundle = core.Bundle{}
	}
	r.mu.Unlock()
	if waits {
		err = fmt.Errorf("%w: %w", raysys.ErrDeadline, err)
	}
	failCalls(r, failed, err)
	switch {
	case r.removeIdle():
		r.awaitsNoMore()
	case waits:
		r.awaits()
		r.after(bundlePause, r.inquire)
	case again: // to look asks the leader of the shard
		r.awaits()
		r.after(nodePause, r.inquire)
	default:
		r.awaitsNoMore()
		r.inquire()
	}
	return true
}

// arrive takes a call from another node, which believes that the grain is here; false when the route is gone.
func (r *route) arrive(v *inboundCall) bool {
	r.mu.Lock()
	switch r.state {
	case routeGone:
		r.mu.Unlock()
		return false
	case routeOpen:
		if !v.token.Newer(r.place.Token) {
			p := r.place
			r.mu.Unlock()
			v.refuse(p)
			return true
		}
		r.avoid = graindir.Place{}
		r.left, r.leftAt = r.peer, r.kind.engine.cfg.Now()
	case routeFresh:
	default:
		err := r.queueLocked(v)
		r.mu.Unlock()
		if err != nil {
			v.fail(fmt.Errorf("call %s: %w", v.name(), err))
		}
		return true
	}
	r.ask, r.hint = v.token, graindir.Place{}
	r.beginLocked(v)
	return true
}

// explain says what the calls in the route wait for.
func (r *route) explain() (w raysys.Waiting, want graindir.Wanted) {
	e := r.kind.engine
	var since int64
	if n, ok := e.nodeless.Load(r); ok {
		since = n.(Nodeless).Since
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want = r.wantedLocked()
	switch n := len(r.queue); {
	case r.state == routeOpen:
		w.Stage, w.For = core.StageSent, fmt.Sprintf("node %s, to which its calls go", r.place.Node)
	case n == 0:
	case r.nodeless && want.Bundle.Group != "":
		w.Stage, w.For = core.StageBundle, fmt.Sprintf("its placement group: the bundle has no node yet, and %d calls wait", n)
	case r.nodeless:
		w.Stage, w.For = core.StageNode, fmt.Sprintf("a node: none has what it asks for, and %d calls wait", n)
	case r.state == routeReleasing:
		w.Stage, w.For = core.StageLookup, fmt.Sprintf("the leader of its shard, which ends its placement here: %d calls wait", n)
	default:
		w.Stage, w.For = core.StageLookup, fmt.Sprintf("the leader of its shard, which is asked where it is: %d calls wait", n)
	}
	if since != 0 {
		w.Waited = time.Duration(max(e.cfg.Now()-since, 0))
	}
	return w, want
}
