package grainengine

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

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

func (e *Engine) isSelf(p graindir.Place) bool {
	return p.NodeKey == e.cfg.Cluster.Self()
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
	var kept, failed []pendingCall
	for _, p := range r.queue {
		o, own := p.(*outboundCall)
		if own && r.kind.waitsFor(o.call) && !o.late(e.cfg.Now()) {
			kept = append(kept, p)
		} else {
			failed = append(failed, p)
		}
	}
	if kept == nil || r.state != routeAsking || e.closed.Load() {
		r.mu.Unlock()
		return false
	}
	r.queue, r.tries = kept, 0
	r.mu.Unlock()
	for _, p := range failed {
		p.fail(fmt.Errorf("find grain %s: %w", shown(r.id().String()), err))
	}
	r.awaits()
	r.after(nodePause, r.inquire)
	return true
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

// here: the grain is this node's, which activates it under that very token.
func (r *route) here(p graindir.Placed) {
	k := r.kind
	e := k.engine
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
	case e.draining.Load(), k.def.holds() && p.Bundle.Group == "" && r.refused():
		r.mu.Lock()
		r.state, r.avoid = routeReleasing, p.Place
		r.tries++
		r.mu.Unlock()
		e.releasing.Add(1)
		r.release()
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
	a.tenure.token = p.Token
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

// elsewhere: the grain is on another node.
func (r *route) elsewhere(p graindir.Place) {
	r.turnAway(p)
	if r.removeIdle() {
		return
	}
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

// movedOn closes the route of a key whose grain a call did not find at from. to is where the grain is, if that is
// known.
func (k *boundKind) movedOn(key string, from, to graindir.Place, tries int) {
	_, r := k.lookup(key)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rotation != nil {
		r.rotation.drop(from.Node, from.Incarnation)
	}
	if (r.state != routeOpen || r.place != from) && !(r.state == routeFresh && k.seeks()) {
		return // another call found out before, and asked
	}
	r.state, r.peer, r.avoid, r.ask = routeFresh, nil, from, graindir.Token{}
	r.tries = max(r.tries, tries-1)
	r.hint = graindir.Place{}
	if to.Token.Newer(from.Token) {
		r.hint = to
	}
}

// forgetPeer closes the routes to a peer that is gone.
func (k *boundKind) forgetPeer(p *peer) {
	for i := range k.table {
		s := &k.table[i]
		s.Lock()
		for _, r := range s.routes {
			r.mu.Lock()
			if r.rotation != nil {
				r.rotation.drop(p.Node(), p.Incarnation())
			}
			if r.state == routeOpen && r.peer == p {
				// The place becomes avoid: the next question says that it could not be reached.
				r.state, r.peer, r.avoid, r.ask = routeFresh, nil, r.place, graindir.Token{}
			}
			r.mu.Unlock()
		}
		s.Unlock()
	}
}
