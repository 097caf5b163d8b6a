package grainengine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// outgoing is what a call of this node has more while its grain is elsewhere, or nobody knows where.
type outgoing struct {
	call turn
	kind *boundKind
	key  string
	// tries counts how often it was sent in vain. Who holds the call, the route or the taker of its slot, writes it.
	tries int
	// side: the call's record does not hold this, so Engine.forwarded does.
	side bool

	mu    sync.Mutex // guards the rest
	peer  *farPeer   // it is, or is being, sent to; nil while it is here
	place Place      // it was sent to last
	slot  uint64
	scope uint32
	busy  bool  // send is at work on it
	lost  error // the peer went while it was
	body  []byte
}

// noSlot is no number of a call.
const noSlot = math.MaxUint64

// facts are what a call says of itself to those who know its types not.
type facts struct {
	entry      *core.Entry
	flags      uint32
	idempotent bool
	until      int64 // on the runtime's clock, 0 for none
	strategy   raysys.Strategy
	labels     map[string]string
}

// outgoingOf returns the outgoing part of a call that must leave, made now where its record has none.
func (k *boundKind) outgoingOf(key string, c turn) *outgoing {
	if o := c.far(); o != nil {
		return o
	}
	o := &outgoing{call: c, kind: k, key: key, side: true}
	k.engine.forwarded.Store(c.future(), o)
	return o
}

func (o *outgoing) turn() turn   { return o.call }
func (o *outgoing) name() string { return o.kind.nameOf(o.key, o.call.facts().entry) }

// nameOf is kind/key.method.
func (k *boundKind) nameOf(key string, method *core.Entry) string {
	return k.def.name + "/" + shown(key) + method.Name[len(k.def.name):]
}

// shown is a key as messages have it: a longer one is cut.
func shown(key string) string {
	if len(key) <= maxShown {
		return key
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(key[:maxShown], ""), len(key))
}

const maxShown = 128

// over: the call has settled, or is in a mailbox of this node.
func (o *outgoing) over() {
	if o.side {
		o.kind.engine.forwarded.Delete(o.call.future())
	}
}

// fail settles the call. No lock may be held: those who wait are told at once.
func (o *outgoing) fail(err error) {
	o.over()
	o.call.future().Fail(err)
}

// send puts the call on its way; the route's lock keeps the order. It fails with raysys.ErrNotDelivered when the peer is
// gone and the call surely did not reach it.
func (o *outgoing) send(fp *farPeer, place Place) error {
	c := o.call
	if c.future().Settled() {
		o.over()
		return nil
	}
	f := c.facts()
	e := o.kind.engine
	head := callHead{flags: f.flags, to: o.key, token: place.Token, seq: c.future().Seq()}
	if f.until != 0 {
		now := e.cfg.Rough
		if f.flags&flagExact != 0 {
			now = e.cfg.Now
		}
		left := f.until - now()
		if left <= 0 {
			return fmt.Errorf("%s waited to be sent: %w", o.name(), raysys.ErrDeadline)
		}
		head.left = uint64(left)
	}
	var ok bool
	if head.method, ok = fp.Runs(f.entry); !ok {
		return fmt.Errorf("%s: %w on node %s: its program lacks it, or has it with other types", o.name(), raysys.ErrUnknownFunc, fp.Node())
	}
	scope, err := fp.Open(c.future().Up())
	if err != nil {
		return err
	}
	head.scope = scope
	slot, err := o.enter(fp)
	// A peer that goes between these two finds o not to be its own; then writing fails, and so does taking the slot back.
	o.mu.Lock()
	o.peer, o.place, o.scope, o.slot, o.busy, o.lost, o.body = fp, place, scope, slot, true, nil, nil
	o.mu.Unlock()
	mine := err != nil // whoever takes the slot shuts the scope
	if err == nil {
		head.slot = slot
		if err = o.write(fp, &head); err != nil {
			_, mine = fp.sent.Take(slot)
		}
	}
	if mine {
		fp.Shut(scope)
	}
	o.mu.Lock()
	lost := o.lost
	if o.peer == fp && o.slot == slot { // else it was answered, or cancelled, already
		o.busy = false
		if err != nil || lost != nil {
			o.peer, o.body = nil, nil
		}
	}
	o.mu.Unlock()
	switch {
	case err != nil:
		return err
	case lost != nil:
		return o.lossError(fp, lost)
	case c.future().Settled(): // cancelled while it was being sent, which then found nothing to cancel
		o.stopped()
	}
	return nil
}

// enter gives the call its number at the peer.
func (o *outgoing) enter(fp *farPeer) (uint64, error) {
	slot, ok := fp.sent.Put(o)
	if !ok {
		return noSlot, fmt.Errorf("node %s is gone: %w", fp.Node(), raysys.ErrNotDelivered)
	}
	if slot&(1<<32-1) >= maxInFlight {
		fp.sent.Take(slot)
		return noSlot, fmt.Errorf("%w: %d calls to node %s are not answered: call less often, or wait for results", raysys.ErrOverloaded, maxInFlight, fp.Node())
	}
	return slot, nil
}

// write encodes the call and sends it, or only its head when the argument is large: that follows when the target has
// given the call its place in the order.
func (o *outgoing) write(fp *farPeer, head *callHead) error {
	if !o.call.lends() {
		return o.writeWith(fp, head, fp.Peer)
	}
	lends := fp.lends()
	err := o.writeWith(fp, head, lends)
	if err != nil {
		lends.TakeBack(0, lends.Mark())
	} else {
		lends.Sent(0, lends.Mark())
	}
	fp.exports.Put(lends)
	return err
}

func (o *outgoing) writeWith(fp *farPeer, head *callHead, refs wire.References) error {
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = head.append(*buf)
	at := len(*buf)
	var err error
	if *buf, err = o.call.encode(*buf, refs); err != nil {
		return fmt.Errorf("%s: argument: %w", o.name(), err)
	}
	if len(*buf)-at > wire.InlineLimit {
		body := callHead{flags: flagBody, slot: head.slot}
		o.mu.Lock()
		o.body = append(body.append(nil), (*buf)[at:]...)
		o.mu.Unlock()
		head.flags |= flagLarge
		*buf = head.append((*buf)[:0])
	}
	return fp.Send(wire.Requests, wire.KindCall, *buf)
}

// sendBody sends the argument that the target asked for.
func (o *outgoing) sendBody(fp *farPeer, slot uint64) {
	o.mu.Lock()
	var body []byte
	if o.peer == fp && o.slot == slot {
		body, o.body = o.body, nil
	}
	o.mu.Unlock()
	if body == nil {
		return
	}
	err := fp.SendLarge(wire.KindCall, body)
	if err == nil || errors.Is(err, raysys.ErrNotDelivered) {
		return // PeerDown sees to a peer that is gone
	}
	if _, ok := fp.sent.Take(slot); ok {
		o.came(fp)
		_ = fp.Send(wire.Control, wire.KindCallCancel, wire.AppendUvarint(nil, slot))
		o.fail(fmt.Errorf("%s: argument: %w", o.name(), err))
	}
}

// came takes the call back from the peer, after its slot was taken, and returns where it was.
func (o *outgoing) came(fp *farPeer) Place {
	o.mu.Lock()
	place, scope := o.place, o.scope
	o.peer, o.body = nil, nil
	o.mu.Unlock()
	fp.Shut(scope)
	return place
}

// flush hurries the call along: its caller is about to wait.
func (o *outgoing) flush() {
	o.mu.Lock()
	fp := o.peer
	o.mu.Unlock()
	if fp != nil {
		fp.Flush()
	}
}

// stopped tells the peer that the call was cancelled here; it may find nothing to tell.
func (o *outgoing) stopped() {
	o.over()
	o.mu.Lock()
	fp, slot, scope := o.peer, o.slot, o.scope
	o.mu.Unlock()
	if fp == nil {
		return
	}
	if _, ok := fp.sent.Take(slot); ok {
		_ = fp.Send(wire.Control, wire.KindCallCancel, wire.AppendUvarint(nil, slot))
		fp.Shut(scope)
	}
}

// lose is called when the peer that had the call unanswered is gone (rule C8).
func (o *outgoing) lose(fp *farPeer, cause error) {
	o.mu.Lock()
	if o.peer != fp {
		o.mu.Unlock()
		return
	}
	if o.busy {
		o.lost = cause
		o.mu.Unlock()
		return // send knows whether it went out
	}
	o.peer, o.body = nil, nil
	o.mu.Unlock()
	if err := o.lossError(fp, cause); !errors.Is(err, raysys.ErrNotDelivered) {
		o.fail(err)
		return
	}
	o.again()
}

// lossError says what the loss of the peer means for a call that was sent.
func (o *outgoing) lossError(fp *farPeer, cause error) error {
	if o.call.facts().idempotent {
		return fmt.Errorf("%s on node %s: %w: %w", o.name(), fp.Node(), raysys.ErrNotDelivered, cause)
	}
	return fmt.Errorf("%s on node %s: %w: the node or the link to it went down before it answered: %w", o.name(), fp.Node(), raysys.ErrOutcomeUnknown, cause)
}

// again sends the call to where its grain is now.
func (o *outgoing) again() {
	if o.tries++; o.tries > maxTries {
		o.fail(fmt.Errorf("%s: %w: it was sent %d times in vain", o.name(), raysys.ErrNotDelivered, o.tries))
		return
	}
	if err := o.kind.send(o.key, o.call, o); err != nil {
		o.fail(fmt.Errorf("%s: %w", o.name(), err))
	}
}

// moved: the target at from refused the call, since the grain is not there; to is where it is, if it knows.
func (o *outgoing) moved(from, to Place) {
	if o.tries++; o.tries > maxTries {
		o.fail(fmt.Errorf("%s: %w %d times while it was being called", o.name(), raysys.ErrMoved, o.tries))
		return
	}
	o.kind.movedOn(o.key, from, to, o.tries)
	if err := o.kind.send(o.key, o.call, o); err != nil {
		o.fail(fmt.Errorf("%s: %w", o.name(), err))
	}
}
