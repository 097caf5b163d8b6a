package grainengine

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// outboundCall is the part of a call of this node that it has while its grain is elsewhere or not located.
type outboundCall struct {
	call *call
	kind *boundKind
	key  string
	// tries counts how often it was sent in vain. The route that the call is in writes it, or the goroutine that took
	// its slot.
	tries int
	// side says that this is no part of the call's record: it is in Engine.forwarded.
	side bool
	// open says that a durable call was made before: the way to its node broke, or what became of its commit was not
	// known when the grain moved. It may have counted then.
	open bool
	// first is when the call was submitted, in milliseconds since 1970; 0 of a call without a key.
	first int64
	// to is the node that is known to have room for a worker of a stateless kind, which the route takes; nil for none. refused is how
	// often a node named one. Both are written like tries.
	to      *core.NodeKey
	refused int
	left    atomic.Bool // what its argument refers to may leave this node

	mu    sync.Mutex     // guards the rest
	peer  *peer          // it is, or is being, sent to; nil while it is here
	place graindir.Place // it was sent to last
	slot  uint64
	scope uint32
	busy  bool  // send is at work on it
	lost  error // the peer went while it was
	body  *argument
}

// argument is the frame of a large argument. Its call and, where it was pushed, the link have it; the last gives the memory back.
type argument struct {
	frame []byte
	users atomic.Int32
}

func (b *argument) drop() {
	if b != nil && b.users.Add(-1) == 0 {
		wire.GiveFrame(b.frame)
	}
}

// noSlot is no number of a call.
const noSlot = math.MaxUint64

// facts are what the engine needs to know of a call whose types it does not know.
type facts struct {
	entry      *core.Entry
	flags      uint32
	idempotent bool  // it may be sent again when the outcome is unknown
	until      int64 // on the runtime's clock, 0 for none
	strategy   raysys.Strategy
	labels     map[string]string
	waits      bool // for a node that has what no node has yet
}

func (o *outboundCall) record() *call { return o.call }
func (o *outboundCall) name() string  { return o.kind.nameOf(o.key, o.call.facts().entry) }

// late reports whether the call's deadline has passed: an alarm says so only to those who wait for the call.
func (o *outboundCall) late(now int64) bool {
	until := o.call.facts().until
	return until != 0 && now >= until
}

// shown is a key as messages have it: one that does not print is quoted, because a client may have chosen it, and a longer one is cut.
func shown(key string) string {
	if len(key) > maxShown {
		return fmt.Sprintf("%s... (%d bytes)", shown(strings.ToValidUTF8(key[:maxShown], "")), len(key))
	}
	if printable(key) {
		return key
	}
	return strconv.Quote(key)
}

// Shown is kind/key as messages have it.
func Shown(id graindir.ID) string { return id.Kind + "/" + shown(id.Key) }

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

const maxShown = 128

// done forgets the outbound part: the call has settled, or is in a mailbox of this node.
func (o *outboundCall) done() {
	if o.side {
		o.kind.engine.forwarded.Delete(&o.call.Future)
	}
}

// fail settles the call. The caller has nothing locked: what waits for the call runs at once.
func (o *outboundCall) fail(err error) {
	o.done()
	if _, own := err.(*raysys.TaskError); o.open && !own && !errors.Is(err, raysys.ErrOutcomeUnknown) {
		err = maybeDone(err)
	}
	o.call.Future.Fail(err)
}

// maybeDone is the failure of a durable call that may have counted before. It does not match the sentinels that say that a
// call did not run.
func maybeDone(err error) error {
	if errors.Is(err, raysys.ErrSuspended) {
		return fmt.Errorf("%w: it was made before, and may have counted: %w", raysys.ErrOutcomeUnknown, suspension{err})
	}
	return fmt.Errorf("%w: it was made before, and may have counted: %v", raysys.ErrOutcomeUnknown, err)
}

// suspension is an error that matches raysys.ErrSuspended, and nothing else that it wraps.
type suspension struct{ error }

func (suspension) Unwrap() error { return raysys.ErrSuspended }

// send sends the call to p; the route's lock keeps the order. It fails with raysys.ErrNotDelivered when the peer is
// gone and the call did not reach it.
func (o *outboundCall) send(p *peer, place graindir.Place) error {
	c := o.call
	if c.Future.Settled() {
		o.done()
		return nil
	}
	f := c.facts()
	e := o.kind.engine
	head := callHead{flags: f.flags, to: o.key, token: place.Token, seq: c.Future.Seq()}
	if f.flags&flagKeyed != 0 {
		if head.named, head.first = c.named(), firstMade(c); head.first != 0 {
			head.flags |= flagFirst
		}
	}
	if head.sent = c.method.sent; head.sent != nil {
		head.flags |= flagMessage
	}
	if f.strategy != "" || len(f.labels) > 0 || len(c.conditions()) > 0 {
		head.flags |= flagBound
	}
	if o.kind.seeks() && o.refused < maxRefused {
		head.flags |= flagSeeks
	}
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
	if head.method, ok = p.Runs(f.entry); !ok {
		return fmt.Errorf("%s: %w on node %s: its program lacks it, or has it with other types", o.name(), raysys.ErrUnknownFunc, p.Node())
	}
	scope, err := p.Open(c.Future.Up())
	if err != nil {
		return err
	}
	head.scope = scope
	slot, err := o.enter(p)
	// PeerDown may take o out of p.sent before o.peer is set. It then leaves o alone: write fails below, and
	// so does p.sent.Take.
	o.mu.Lock()
	o.peer, o.place, o.scope, o.slot, o.busy, o.lost, o.body = p, place, scope, slot, true, nil, nil
	o.mu.Unlock()
	mine := err != nil // whatever takes the slot shuts the scope
	if err == nil {
		head.slot = slot
		if err = o.write(p, &head); err != nil {
			_, mine = p.sent.Take(slot)
		}
	}
	if mine {
		p.Shut(scope)
	}
	o.mu.Lock()
	lost := o.lost
	if o.peer == p && o.slot == slot { // else it was answered, or cancelled, already
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
		return o.lossError(p, lost)
	case c.Future.Settled(): // cancelled while it was being sent, which then found nothing to cancel
		o.stopped()
	}
	return nil
}

// enter gives the call its number at the peer.
func (o *outboundCall) enter(p *peer) (uint64, error) {
	slot, ok := p.sent.Put(o)
	if !ok {
		return noSlot, fmt.Errorf("node %s is gone: %w", p.Node(), raysys.ErrNotDelivered)
	}
	if slot&(1<<32-1) >= maxInFlight {
		p.sent.Take(slot)
		return noSlot, fmt.Errorf("%w: %d calls to node %s are not answered: call less often, or wait for results", raysys.ErrOverloaded, maxInFlight, p.Node())
	}
	return slot, nil
}

// write encodes the call and sends it, or only its head when the argument is large: that follows when the target has
// given the call its place in the order.
func (o *outboundCall) write(p *peer, head *callHead) error {
	if !o.call.exports() {
		return o.writeWith(p, head, p.Peer)
	}
	pending := p.pendingExports()
	err := o.writeWith(p, head, pending)
	if err != nil {
		pending.TakeBack(0, pending.Mark())
	} else {
		pending.Sent(0, pending.Mark())
	}
	p.exports.Put(pending)
	return err
}

func (o *outboundCall) writeWith(p *peer, head *callHead, refs wire.References) error {
	size := o.call.argSize()
	if size > wire.InlineLimit && size <= wire.ValueLimit {
		return o.writeLarge(p, head, size, refs)
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = head.append(*buf)
	at := len(*buf)
	var err error
	if *buf, err = o.call.encode(*buf, size, refs); err != nil {
		return fmt.Errorf("%s: argument: %w", o.name(), err)
	}
	if len(*buf)-at > wire.InlineLimit { // more than it seemed
		body := callHead{flags: flagBody | flagPushed, slot: head.slot}
		return o.writeApart(p, head, append(body.append(nil), (*buf)[at:]...))
	}
	return p.Send(wire.Requests, wire.KindCall, *buf)
}

// writeLarge is writeWith for an argument of about size bytes, which is encoded into the frame that it goes in.
func (o *outboundCall) writeLarge(p *peer, head *callHead, size int, refs wire.References) error {
	body := callHead{flags: flagBody, slot: head.slot}
	if size <= wire.PushLimit {
		body.flags |= flagPushed
	}
	frame := body.append(wire.TakeFrame(size + size/16 + 256)[:0])
	at := len(frame)
	frame, err := o.call.encode(frame, size, refs)
	if err != nil {
		return fmt.Errorf("%s: argument: %w", o.name(), err)
	}
	if len(frame)-at > wire.InlineLimit {
		return o.writeApart(p, head, frame)
	}
	return p.Send(wire.Requests, wire.KindCall, append(head.append(nil), frame[at:]...)) // less than it seemed, or by reference
}

// writeApart sends the head of a call whose argument is the frame body. One with flagPushed goes at once, and before the head, which
// then says so: where the bulk connection has no room for it, the target asks for it as for one that is larger.
func (o *outboundCall) writeApart(p *peer, head *callHead, body []byte) error {
	b := &argument{frame: body}
	b.users.Store(1)
	o.mu.Lock()
	o.body = b // until the call is answered: a target that has too many arguments before their heads drops it
	o.mu.Unlock()
	head.flags |= flagLarge
	if isPushed(body) {
		b.users.Store(2)
		if p.SendFrame(wire.KindCall, body, func([]byte) { b.drop() }) == nil {
			head.flags |= flagPushed
		}
	}
	err := p.Send(wire.Requests, wire.KindCall, head.append(nil))
	if err != nil && head.flags&flagPushed != 0 {
		none := callHead{flags: flagBody | flagPushed, slot: head.slot}
		_ = p.Send(wire.Control, wire.KindCall, none.append(nil))
	}
	return err
}

// isPushed reports whether the frame of an argument says that nobody has asked for it.
func isPushed(body []byte) bool {
	r := wire.NewReader(body)
	return r.Uint32()&flagPushed != 0
}

// sendBody sends the argument that the target asked for.
func (o *outboundCall) sendBody(p *peer, slot uint64) {
	o.mu.Lock()
	var b *argument
	if o.peer == p && o.slot == slot {
		b, o.body = o.body, nil // its memory is not used again
	}
	o.mu.Unlock()
	if b == nil {
		return
	}
	body := b.frame
	if isPushed(body) {
		asked, r := callHead{flags: flagBody, slot: slot}, wire.NewReader(body)
		var was callHead
		_ = was.read(&r)
		body = append(asked.append(make([]byte, 0, len(body))), r.Rest()...)
	}
	err := p.SendLarge(wire.KindCall, body)
	if err == nil || errors.Is(err, raysys.ErrNotDelivered) {
		return // PeerDown sees to a peer that is gone
	}
	if _, ok := p.sent.Take(slot); ok {
		o.takeBack(p)
		_ = p.Send(wire.Control, wire.KindCallCancel, wire.AppendUvarint(nil, slot))
		o.fail(fmt.Errorf("%s: argument: %w", o.name(), err))
	}
}

// takeBack takes the call back from the peer, after its slot was taken, and returns where it was.
func (o *outboundCall) takeBack(p *peer) graindir.Place {
	o.mu.Lock()
	place, scope, body := o.place, o.scope, o.body
	o.peer, o.body = nil, nil
	o.mu.Unlock()
	body.drop()
	p.Shut(scope)
	return place
}

// flush sends what is queued for the call's peer: its caller is about to wait.
func (o *outboundCall) flush() {
	o.mu.Lock()
	p := o.peer
	o.mu.Unlock()
	if p != nil {
		p.Flush()
	}
}

// stopped tells the peer that the call was cancelled here, if the peer has it.
func (o *outboundCall) stopped() {
	o.done()
	o.mu.Lock()
	p, slot, scope := o.peer, o.slot, o.scope
	o.mu.Unlock()
	if p == nil {
		return
	}
	p.giveUp(slot) // before an answer finds that it was taken
	if _, ok := p.sent.Take(slot); ok {
		_ = p.Send(wire.Control, wire.KindCallCancel, wire.AppendUvarint(nil, slot))
		p.Shut(scope)
	} else {
		p.unwanted(slot, statusError, wire.Reader{}) // it was answered
	}
}

// peerLost ends or resends the call when the peer that has not answered it is gone (rule C8).
func (o *outboundCall) peerLost(p *peer, cause error) {
	o.mu.Lock()
	if o.peer != p {
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
	if err := o.lossError(p, cause); !errors.Is(err, raysys.ErrNotDelivered) {
		o.fail(err)
		return
	}
	o.resend()
}

// lossError says what the loss of the peer means for a call that was sent.
func (o *outboundCall) lossError(p *peer, cause error) error {
	if o.call.facts().idempotent {
		o.open = o.open || o.transacts()
		return fmt.Errorf("%s on node %s: %w: %w", o.name(), p.Node(), raysys.ErrNotDelivered, cause)
	}
	return fmt.Errorf("%s on node %s: %w: the node or the link to it went down before it answered: %w", o.name(), p.Node(), raysys.ErrOutcomeUnknown, cause)
}

// transacts reports whether the call is a transaction.
func (o *outboundCall) transacts() bool { return o.kind.def.Durable && !o.call.isReadOnly() }

// wasSent reports whether the call was sent to a node before.
func (o *outboundCall) wasSent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.place.IsZero()
}

// precedes reports whether p is a call that the turn of o has made after o.
func (o *outboundCall) precedes(p pendingCall) bool {
	other, own := p.(*outboundCall)
	return own && other.call.Future.Up() == o.call.Future.Up() && other.call.Future.Seq() > o.call.Future.Seq()
}

// bindsGrain reports whether a call says where its grain is to be.
func bindsGrain(p pendingCall) bool {
	if v, inbound := p.(*inboundCall); inbound {
		return v.bound
	}
	f := p.record().facts()
	return f.strategy != "" || len(f.labels) > 0 || len(p.record().conditions()) > 0
}

// resend sends the call to where its grain is now.
func (o *outboundCall) resend() {
	if o.tries++; o.tries > maxTries && !o.kind.def.Durable {
		o.fail(fmt.Errorf("%s: %w: it was sent %d times in vain", o.name(), raysys.ErrNotDelivered, o.tries))
		return
	}
	if err := o.kind.send(o.key, o.call, o); err != nil {
		o.fail(fmt.Errorf("%s: %w", o.name(), err))
	}
}

// maxRefused bounds how often a call is refused for want of room: then it waits where it comes to.
const maxRefused = 64

// sendTo sends the call to a node that is known to have room for a worker; where that is zero, to any.
func (o *outboundCall) sendTo(to graindir.Place) {
	if o.to = nil; to.Node != "" {
		o.to = &to.NodeKey
	}
	if err := o.kind.send(o.key, o.call, o); err != nil {
		o.fail(fmt.Errorf("%s: %w", o.name(), err))
	}
}

// moved resends the call, which the node of from refused since the grain is not there. to is where the grain is, if
// that node knows. Where it is but the token of from, the call waited there with the grain, which moves to where there is room for it: it
// was not sent in vain, and what was before that counts no more.
func (o *outboundCall) moved(from, to graindir.Place) {
	if o.kind.seeks() && to.Node != "" { // from has no room for a worker, and to has
		o.refused++
		o.sendTo(to)
		return
	}
	o.open = o.open || o.transacts()
	if to.Node == "" && to.Token == from.Token && !to.IsZero() {
		o.tries = 0
	} else if o.tries++; o.tries > maxTries && !o.kind.def.Durable {
		o.fail(fmt.Errorf("%s: %w %d times while it was being called", o.name(), raysys.ErrMoved, o.tries))
		return
	}
	o.kind.movedOn(o.key, from, to, o.tries)
	if err := o.kind.send(o.key, o.call, o); err != nil {
		o.fail(fmt.Errorf("%s: %w", o.name(), err))
	}
}

// Calls whose arguments refer to what must not leave this node yet (core.Gate) are held here, and behind each the calls
// that the same turn makes to the same grain after it: their order stays (rule C5). Stateless workers keep no order.

// heldCalls are the calls of a node that are held.
type heldCalls struct {
	open atomic.Int64 // lines
	mu   sync.Mutex   // guards the rest
	line map[heldKey]*heldLine
}

// heldKey is a turn and the grain that it calls, or one call of a stateless worker.
type heldKey struct {
	by   *core.Turn
	kind *boundKind
	key  string
	call *outboundCall
}

type heldLine struct {
	queue   []*outboundCall
	running bool // a goroutine sends from the front
}

// hold keeps a call here while its argument refers to what must not leave this node yet, or while an earlier call does
// to which it keeps its order. It is sent when that may. On an error the call was not held.
func (o *outboundCall) hold() (bool, error) {
	gate := o.call.Future.Up().Job().Gate
	if gate == nil || o.left.Load() {
		return false, nil
	}
	held := &o.kind.engine.held
	if futures := o.call.references(); len(futures) == 0 {
		o.left.Store(true)
	} else {
		gate.Leave(futures, o.mayLeave)
	}
	if o.left.Load() && (held.open.Load() == 0 || o.kind.def.Stateless) {
		return false, nil
	}
	return held.add(o)
}

func (o *outboundCall) heldKey() heldKey {
	if o.kind.def.Stateless {
		return heldKey{call: o}
	}
	return heldKey{by: o.call.Future.Up(), kind: o.kind, key: o.key}
}

// mayLeave lets the call go on, or fails it where it must not leave.
func (o *outboundCall) mayLeave(err error) {
	o.left.Store(true)
	if err != nil {
		o.fail(fmt.Errorf("%s: argument: %w", o.name(), err)) // send finds that it has settled
	}
	o.kind.engine.held.run(o.heldKey())
}

// add puts o at the end of its line; false where o may go on and there is no line.
func (h *heldCalls) add(o *outboundCall) (bool, error) {
	k := o.heldKey()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.line[k]
	switch {
	case l == nil && o.left.Load():
		return false, nil
	case l == nil:
		l = &heldLine{}
		if h.line == nil {
			h.line = map[heldKey]*heldLine{}
		}
		h.line[k] = l
		h.open.Add(1)
	case len(l.queue) >= o.kind.def.Mailbox:
		return false, overloaded(o.kind.def.Mailbox)
	}
	l.queue = append(l.queue, o)
	return true, nil
}

// run sends the calls at the front of a line that may leave.
func (h *heldCalls) run(k heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.line[k]
	if l == nil || l.running {
		return
	}
	l.running = true
	for len(l.queue) > 0 && l.queue[0].left.Load() {
		o := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		h.mu.Unlock()
		if err := o.kind.send(o.key, o.call, o); err != nil {
			o.fail(fmt.Errorf("%s: %w", o.name(), err))
		}
		h.mu.Lock()
	}
	if l.running = false; len(l.queue) == 0 {
		delete(h.line, k)
		h.open.Add(-1)
	}
}
