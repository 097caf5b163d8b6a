package grainengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// maxInFlight bounds the calls that one peer has not answered.
const maxInFlight = 1 << 20

// maxEarly bounds the cancellations that are kept for calls that have not arrived. Few are on the way at a time.
const maxEarly = 1024

// peer is one incarnation of another node as this engine sees it.
type peer struct {
	wire.Peer
	engine *Engine
	sent   wire.Slots[*outboundCall] // calls that it has not answered
	gone   atomic.Bool
	// answers is how many frames with answers are being read: their calls are in sent no more, and may not have been
	// sent on.
	answers atomic.Int32

	mu      sync.Mutex          // guards the rest
	inbound []*inboundCall      // its calls that are not settled here, by the low half of its number for them
	early   map[uint64]struct{} // cancelled before they came: control frames overtake requests
	givenUp map[uint64]struct{} // calls to it that were cancelled here, and have no answer yet
	lines   map[lineKey]*line
	pushed  pushed

	exports sync.Pool // of wire.PendingExports
}

// pendingExports returns a list for the references in one call.
func (p *peer) pendingExports() wire.PendingExports {
	if l, ok := p.exports.Get().(wire.PendingExports); ok {
		return l
	}
	return wire.PendingExportsOf(p.Peer)
}

// corrupt returns an err that breaks the protocol, for which the link is closed. A value of another type fails its call
// only.
func corrupt(err error) error {
	if errors.Is(err, wire.ErrCorrupt) {
		return err
	}
	return nil
}

// cancelled handles KindCallCancel.
func (p *peer) cancelled(r *wire.Reader) error {
	slot := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	v := p.inboundLocked(slot)
	if v == nil {
		if p.early == nil || len(p.early) >= maxEarly {
			p.early = map[uint64]struct{}{}
		}
		p.early[slot] = struct{}{}
	}
	p.mu.Unlock()
	if v != nil {
		v.call.Future.Cancel(raysys.ErrCancelled)
	}
	return nil
}

// inboundLocked finds the peer's call; the caller holds mu.
func (p *peer) inboundLocked(slot uint64) *inboundCall {
	i := slot & (1<<32 - 1)
	if i >= uint64(len(p.inbound)) {
		return nil
	}
	if v := p.inbound[i]; v != nil && v.slot == slot {
		return v
	}
	return nil
}

// leave forgets a call that has settled, and reports whether others may wait in a line behind it.
func (p *peer) leave(v *inboundCall) (behind bool) {
	i := v.slot & (1<<32 - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < uint64(len(p.inbound)) && p.inbound[i] == v {
		p.inbound[i] = nil
	}
	return v.argument != argumentHere
}

// dropInbound ends the calls of a peer that is gone, so that nothing waits for an argument that cannot come.
func (p *peer) dropInbound(cause error) {
	p.mu.Lock()
	var open []*inboundCall
	for _, v := range p.inbound {
		if v != nil {
			open = append(open, v)
		}
	}
	p.mu.Unlock()
	for _, v := range open {
		v.call.Future.Cancel(fmt.Errorf("%w: the caller's node %s is gone: %w", raysys.ErrCancelled, p.Node(), cause))
	}
}

// Resolved implements core.Resolved: the outcome goes back, once what it refers to may leave this node.
func (v *inboundCall) Resolved(*core.Waiter) {
	p := v.peer
	if p.leave(v) {
		p.release(v)
	}
	c := &v.call.Future
	gate := c.Up().Job().Gate
	if gate == nil || !v.result.HasRefs() || c.Failed() {
		v.tell()
		return
	}
	gate.Leave([]*core.Future{c}, func(err error) {
		if err != nil && v.answered.CompareAndSwap(false, true) {
			p.answerError(v.slot, fmt.Errorf("%s: result: %w", v.name(), err))
			return
		}
		v.tell()
	})
}

// tell sends the outcome.
func (v *inboundCall) tell() {
	p := v.peer
	if p.answerHere(v) {
		return
	}
	value, err := v.call.Future.Outcome() // also where the peer is gone: a failure that nothing has looked at is logged
	if err != nil && v.call.Future.Absent() {
		value, err = nil, nil // it answers by reference
	}
	if p.gone.Load() || !v.answered.CompareAndSwap(false, true) {
		return
	}
	if _, own := err.(*raysys.TaskError); !own && errors.Is(err, raysys.ErrClosed) && v.nodeCloses() {
		return // it ended with this node: the caller's node decides by the lost link
	}
	if err != nil {
		p.answerError(v.slot, err)
		if v.last() {
			p.Flush()
		}
	} else {
		p.answerValue(v, wire.AddressOf(value))
	}
}

// last reports whether no call waits behind this one. Then the answer is sent at once, and not with those of later
// calls.
func (v *inboundCall) last() bool {
	a := v.call.queuedAt()
	return a != nil && a.UserMessageCount() == 0
}

// answerHere answers a call whose value is in its record; false when it failed or its value is elsewhere.
func (p *peer) answerHere(v *inboundCall) bool {
	c := &v.call.Future
	if !c.Here() {
		return false
	}
	if !p.gone.Load() && v.answered.CompareAndSwap(false, true) {
		p.answerValue(v, c.ValueAt())
	}
	return true
}

// answerValue answers a call with the value that is at the address, which is nil where it is elsewhere.
func (p *peer) answerValue(v *inboundCall, at unsafe.Pointer) {
	if !v.result.HasRefs() {
		p.answerWith(v, at, p.Peer)
		return
	}
	refs := p.pendingExports()
	if p.answerWith(v, at, refs) {
		refs.Sent(0, refs.Mark())
	} else {
		refs.TakeBack(0, refs.Mark())
	}
	p.exports.Put(refs)
}

// answerWith is answerValue; false when the references that it has appended have not gone.
func (p *peer) answerWith(v *inboundCall, at unsafe.Pointer, refs wire.References) (gone bool) {
	if at != nil && !v.result.Fixed() {
		if size := v.result.SizeAt(at); size > wire.InlineLimit && size <= wire.PushLimit {
			return p.answerPushed(v, at, size, refs)
		}
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = appendAnswer(*buf, v.slot, statusValue)
	head := len(*buf)
	var err error
	if *buf, err = wire.AppendResult(*buf, v.result, at, &v.call.Future, refs); err != nil {
		p.answerNoValue(v, err)
		return false
	}
	if len(*buf)-head > wire.InlineLimit { // it has many references
		return p.push(v, at, append([]byte(nil), *buf...))
	}
	p.sendAnswer(v, *buf)
	return true
}

// answerPushed answers with a value of about size bytes, which goes along over the bulk connection.
func (p *peer) answerPushed(v *inboundCall, at unsafe.Pointer, size int, refs wire.References) (gone bool) {
	frame := appendAnswer(wire.TakeFrame(size + size/16 + 256)[:0], v.slot, statusValue)
	head := len(frame)
	frame, err := wire.AppendPushed(frame, v.result, at, refs)
	switch {
	case err == nil && len(frame)-head > wire.InlineLimit:
		return p.push(v, at, frame)
	case err == nil:
		p.sendAnswer(v, frame)
	case errors.Is(err, raysys.ErrTooLarge):
		p.answerByReference(v, at)
	default:
		p.answerNoValue(v, err)
	}
	wire.GiveFrame(frame)
	return err == nil
}

// push sends an answer over the bulk connection. When that has no room the answer goes by reference.
func (p *peer) push(v *inboundCall, at unsafe.Pointer, frame []byte) (gone bool) {
	err := p.SendFrame(wire.KindCallResult, frame, wire.GiveFrame)
	if err != nil && !errors.Is(err, raysys.ErrNotDelivered) {
		p.answerByReference(v, at)
	}
	return err == nil
}

// answerByReference answers that the value is here.
func (p *peer) answerByReference(v *inboundCall, at unsafe.Pointer) {
	buf := takeBuffer()
	defer giveBuffer(buf)
	var err error
	*buf, err = wire.AppendReference(appendAnswer(*buf, v.slot, statusValue), v.result, at, &v.call.Future, p.Peer)
	if err != nil {
		p.answerNoValue(v, err)
		return
	}
	p.sendAnswer(v, *buf)
}

// sendAnswer sends an answer that is not large.
func (p *peer) sendAnswer(v *inboundCall, frame []byte) {
	if !v.last() {
		p.reply(v.slot, frame)
		return
	}
	p.Cork()
	p.reply(v.slot, frame)
	p.Uncork(true)
}

// answerNoValue says why the call's value cannot go.
func (p *peer) answerNoValue(v *inboundCall, err error) {
	p.answerError(v.slot, fmt.Errorf("%s: result: %w", v.name(), err))
}

func (p *peer) answerError(slot uint64, err error) {
	buf := takeBuffer()
	*buf = wire.AppendErrorTo(appendAnswer(*buf, slot, statusError), p.Peer, err)
	p.reply(slot, *buf)
	giveBuffer(buf)
}

// reply sends an answer. When the peer takes no more replies, a short control frame tells it that this answer is lost.
func (p *peer) reply(slot uint64, frame []byte) {
	err := p.Send(wire.Replies, wire.KindCallResult, frame)
	if err == nil || errors.Is(err, raysys.ErrNotDelivered) {
		return
	}
	lost := wire.AppendError(appendAnswer(nil, slot, statusError),
		fmt.Errorf("%w: the answer could not be sent: %w", raysys.ErrOutcomeUnknown, err))
	_ = p.Send(wire.Control, wire.KindCallResult, lost)
}

// answered handles KindCallResult.
func (p *peer) answered(r *wire.Reader) error {
	slot, status := r.Uvarint(), r.Byte()
	if err := r.Err(); err != nil {
		return err
	}
	if status == statusWant {
		p.wanted(slot)
		return nil
	}
	o, ok := p.sent.Take(slot)
	if !ok {
		p.unwanted(slot, status, *r)
		return nil
	}
	return p.answer(o, status, r)
}

// giveUp notes a call that was cancelled here: its answer may be on the way.
func (p *peer) giveUp(slot uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.givenUp == nil || len(p.givenUp) >= maxEarly {
		p.givenUp = map[uint64]struct{}{}
	}
	p.givenUp[slot] = struct{}{}
}

// unwanted reads the references in the answer to a call that was cancelled here, so that the peer, which counts them, gets them back: as
// any that nothing refers to. It reads the first answer alone.
func (p *peer) unwanted(slot uint64, status byte, r wire.Reader) {
	p.mu.Lock()
	_, first := p.givenUp[slot]
	delete(p.givenUp, slot)
	p.mu.Unlock()
	if !first || status != statusValue {
		return
	}
	if r.Large() {
		_, _, _ = wire.ReadLarge(&r, p.Peer)
		return
	}
	if r.Sized(); r.Len() == 0 {
		return // its type has no references
	}
	for range r.Count(1) {
		if _, err := p.ReadRef(&r); err != nil {
			return
		}
	}
}

func (p *peer) wanted(slot uint64) {
	if o, ok := p.sent.Look(slot); ok {
		o.sendBody(p, slot)
	}
}

// answerBatch is a list of answers whose calls are looked up under one lock.
type answerBatch struct {
	n      int
	items  [answerBatchSize]wire.Reader
	slots  [answerBatchSize]uint64
	status [answerBatchSize]byte
	calls  [answerBatchSize]*outboundCall
	found  [answerBatchSize]bool
}

const answerBatchSize = 32

var answerBatches = sync.Pool{New: func() any { return new(answerBatch) }}

// answeredAll handles KindCallResults.
func (p *peer) answeredAll(list []byte) error {
	l := answerBatches.Get().(*answerBatch)
	defer func() {
		*l = answerBatch{}
		answerBatches.Put(l)
	}()
	for all := wire.NewReader(list); all.Len() > 0; {
		if err := p.takeBatch(l, &all); err != nil {
			return err
		}
	}
	return nil
}

// takeBatch settles the calls of the first answers of a list.
func (p *peer) takeBatch(l *answerBatch, all *wire.Reader) error {
	l.n = 0
	for l.n < answerBatchSize && all.Len() > 0 {
		item := wire.NewReader(all.Bytes())
		slot, status := item.Uvarint(), item.Byte()
		if all.Err() != nil || item.Err() != nil {
			return wire.ErrCorrupt
		}
		if status == statusWant {
			p.wanted(slot)
			continue
		}
		l.items[l.n], l.slots[l.n], l.status[l.n] = item, slot, status
		l.n++
	}
	p.sent.TakeAll(l.slots[:l.n], l.calls[:], l.found[:])
	var bad error
	for i := range l.n {
		var err error
		if l.found[i] {
			err = p.answer(l.calls[i], l.status[i], &l.items[i])
		} else {
			p.unwanted(l.slots[i], l.status[i], l.items[i])
		}
		if err != nil && bad == nil {
			bad = err // the link is closed for it; the calls that were found settle nevertheless
		}
	}
	return bad
}

// answer ends a call that was taken out of sent.
func (p *peer) answer(o *outboundCall, status byte, r *wire.Reader) error {
	from := o.takeBack(p)
	switch status {
	case statusValue:
		o.kind.replied(o.call, o.key, p)
		if at := *r; readsForeign(o.call.method.res) && !at.Large() {
			late := wire.NewReader(slices.Clone(r.Rest()))
			go func() { _ = settleWith(p, o, late) }()
			return nil
		}
		return settleWith(p, o, *r)
	case statusError:
		err := wire.ReadError(r)
		if o.unsettled(err) {
			o.resend()
			return nil
		}
		o.kind.replied(o.call, o.key, p)
		o.fail(err)
		return corrupt(err)
	case statusMoved:
		to := readPlace(r)
		if err := r.Err(); err != nil {
			o.fail(fmt.Errorf("%s: answer from node %s: %w", o.name(), p.Node(), err))
			return err
		}
		o.moved(from, to)
	default:
		o.fail(fmt.Errorf("%s: node %s answers with outcome %d, which this version does not know: %w", o.name(), p.Node(), status, raysys.ErrOutcomeUnknown))
	}
	return nil
}

// settleWith ends a call with the value that r has.
func settleWith(p *peer, o *outboundCall, r wire.Reader) error {
	if err := o.call.settle(r, p.Peer); err != nil {
		o.fail(fmt.Errorf("%s: result from node %s: %w", o.name(), p.Node(), err))
		return corrupt(err)
	}
	o.done()
	return nil
}

// Large arguments. A call whose argument is larger than wire.InlineLimit comes as a head without it, in the order of
// the small ones. The argument comes over the bulk connection: up to wire.PushLimit unasked (mailbox.go), and else this node asks for it.
// Until it is here, later calls of the same peer to the same grain wait in a line, so that their order stays (rule C5). An argument that
// is too large for a frame comes as a reference to an object, and its call waits in the same line while that is fetched (call.go).

type lineKey struct {
	kind *boundKind
	key  string
}

// line is the line of one peer's calls to one grain behind one that waits for its argument.
type line struct {
	queue   []*inboundCall
	running bool // a goroutine delivers from the front
}

// enter records a call that arrived, unless it was cancelled before, and delivers it or puts it in the line. object is
// its argument where that is an object, else nil, and foreign where code of the program decodes it; pushed says that it comes unasked.
func (p *peer) enter(v *inboundCall, object *core.Future, foreign []byte, pushed bool) error {
	i := v.slot & (1<<32 - 1)
	if i >= maxInFlight {
		return fmt.Errorf("%w: call number %d, and at most %d may be open", wire.ErrCorrupt, i, maxInFlight)
	}
	p.mu.Lock()
	var argument []byte
	asks := true
	if pushed {
		argument, asks = p.pushed.head(v.slot)
	}
	if _, gone := p.early[v.slot]; gone {
		delete(p.early, v.slot)
		p.mu.Unlock()
		return nil
	}
	for uint64(len(p.inbound)) <= i {
		p.inbound = append(p.inbound, nil)
	}
	p.inbound[i] = v // one that the caller has given up may still run under an older generation of the number
	wanted := v.argument != argumentHere
	if len(p.lines) == 0 && !wanted || v.kind.def.Stateless { // stateless workers keep no order
		p.mu.Unlock()
		if !wanted {
			v.deliver()
			return nil
		}
	} else if !p.lineUp(v, wanted) {
		return nil
	}
	switch {
	case object != nil:
		v.call.pull(v, object)
	case foreign != nil:
		go func() { _ = readArgument(p, v, wire.NewReader(foreign)) }()
	case argument != nil:
		r := wire.NewReader(argument)
		return p.body(v.slot, false, &r)
	case wanted && asks:
		p.reply(v.slot, appendAnswer(nil, v.slot, statusWant))
		p.Flush()
	}
	return nil
}

// lineUp puts v at the end of its line; without a line it delivers a v that has its argument. It unlocks. False when v
// was refused.
func (p *peer) lineUp(v *inboundCall, wanted bool) bool {
	k := lineKey{v.kind, v.key}
	l := p.lines[k]
	switch {
	case l == nil && !wanted:
		p.mu.Unlock()
		v.deliver()
		return true
	case l != nil && len(l.queue) >= v.kind.def.Mailbox:
		p.mu.Unlock()
		v.fail(fmt.Errorf("call %s: %w", v.name(), overloaded(v.kind.def.Mailbox)))
		return false
	case l == nil:
		l = &line{}
		if p.lines == nil {
			p.lines = map[lineKey]*line{}
		}
		p.lines[k] = l
	}
	l.queue = append(l.queue, v)
	p.mu.Unlock()
	return true
}

// body handles the argument of a call that waits for it, and one that was pushed and came before its call, or without one.
func (p *peer) body(slot uint64, pushed bool, r *wire.Reader) error {
	p.mu.Lock()
	v := p.inboundLocked(slot)
	switch waits := v != nil && v.argument == argumentWanted; {
	case waits:
		p.pushed.arrived(slot)
	case pushed && r.Len() == 0:
		p.pushed.head(slot) // and its call will not come
	case pushed:
		p.pushed.argument(slot, r.Rest())
	}
	if v == nil || v.argument != argumentWanted {
		p.mu.Unlock()
		return nil
	}
	v.argument = argumentComing
	p.mu.Unlock()
	if readsForeign(v.call.method.arg) {
		late := wire.NewReader(slices.Clone(r.Rest()))
		go func() { _ = readArgument(p, v, late) }()
		return nil
	}
	return readArgument(p, v, *r)
}

// readsForeign reports whether code of the program decodes values of a plan. That may wait, so the goroutine that reads a connection does not
// call it: others of the peer would wait too. References are counted as they come.
func readsForeign(plan *codec.Plan) bool { return plan.Foreign() && !plan.HasRefs() }

// readArgument decodes the argument of a call that waits for it.
func readArgument(p *peer, v *inboundCall, r wire.Reader) error {
	if err := v.call.take(r, p.Peer); err != nil {
		v.fail(fmt.Errorf("%s: argument: %w", v.name(), err)) // Resolved lets the line go on
		if errors.Is(err, wire.ErrCorrupt) {
			return err
		}
		return nil
	}
	p.release(v)
	return nil
}

// release lets v and the calls behind it go on: its argument is here, or it has ended.
func (p *peer) release(v *inboundCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.argument == argumentHere {
		return
	}
	v.argument = argumentHere
	if v.kind.def.Stateless {
		p.mu.Unlock()
		v.deliver()
		p.mu.Lock()
		return
	}
	k := lineKey{v.kind, v.key}
	l := p.lines[k]
	if l == nil || l.running {
		return
	}
	l.running = true
	for len(l.queue) > 0 && l.queue[0].argument == argumentHere {
		next := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		p.mu.Unlock()
		next.deliver()
		p.mu.Lock()
	}
	l.running = false
	if len(l.queue) == 0 {
		delete(p.lines, k)
	}
}

// forgotten handles KindCallForget.
func (p *peer) forgotten(r *wire.Reader) error {
	for r.Len() > 0 {
		method, key, call := r.Uint32(), r.Bytes(), r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		entry := p.Entry(method)
		if entry == nil {
			continue // the peer took another incarnation's number
		}
		m, ok := entry.Impl.(*methodVariants)
		if !ok {
			return fmt.Errorf("%w: %s is no method", wire.ErrCorrupt, entry)
		}
		p.engine.bind(m.of()).forget(string(key), call)
	}
	return r.Err()
}

// calledAll handles KindCalls.
func (p *peer) calledAll(list []byte) error {
	for all := wire.NewReader(list); all.Len() > 0; {
		item := wire.NewReader(all.Bytes())
		if err := all.Err(); err != nil {
			return err
		}
		if err := p.called(&item); err != nil {
			return err
		}
	}
	return nil
}

// called handles KindCall.
func (p *peer) called(r *wire.Reader) error {
	var h callHead
	if err := h.read(r); err != nil {
		return err
	}
	if h.flags&flagBody != 0 {
		return p.body(h.slot, h.flags&flagPushed != 0, r)
	}
	e := p.engine
	refuse := func(err error) error {
		if h.flags&flagPushed != 0 {
			p.mu.Lock()
			p.pushed.head(h.slot)
			p.mu.Unlock()
		}
		p.answerError(h.slot, err)
		return nil
	}
	entry := p.Entry(h.method)
	if entry == nil {
		return refuse(fmt.Errorf("%w: this node knows no method number %d", raysys.ErrUnknownFunc, h.method))
	}
	c, ok := entry.Impl.(*methodVariants)
	if !ok {
		return fmt.Errorf("%w: %s is no method", wire.ErrCorrupt, entry)
	}
	up := p.Turn(h.scope)
	if up == nil {
		return refuse(fmt.Errorf("call %s: %w: the caller's turn is not known here", entry.Name, raysys.ErrNotDelivered))
	}
	v, def := c.newInbound(&h, up)
	v.kind, v.peer, v.slot, v.token, v.ofTurn = e.bind(def), p, h.slot, h.token, h.flags&flagOfTurn != 0
	v.callKey, v.first, v.sent = h.named, h.first, h.sent
	v.seeks, v.bound = h.flags&flagSeeks != 0, h.flags&flagBound != 0
	v.key, v.target = v.kind.keyOf(h.key)
	var object *core.Future
	var foreign []byte
	if h.flags&flagLarge != 0 {
		v.argument = argumentWanted
	} else if r.Large() {
		var err error
		escapes := *r // here alone: r stays on the stack
		if object, err = p.ReadRef(&escapes); err != nil {
			return err
		}
		v.argument = argumentPulled
	} else if readsForeign(v.call.method.arg) {
		v.argument, foreign = argumentComing, slices.Clone(r.Rest())
	} else if err := v.call.take(*r, p.Peer); err != nil {
		if errors.Is(err, wire.ErrCorrupt) {
			return err
		}
		return refuse(fmt.Errorf("%s: argument: %w", v.name(), err))
	}
	// Subscribed to before the deadline is set, so that no alarm is set for it here: the caller's node has one.
	v.call.Future.Expect(&v.waiter, v)
	v.came = v.call.method.clock(&e.cfg)()
	if h.left != 0 {
		v.call.expireAt(v.came + int64(min(h.left, uint64(maxLeft))))
	}
	return p.enter(v, object, foreign, h.flags&flagPushed != 0)
}

// askOpen sends the question.
func (p *peer) askOpen(by *core.Entry, key string, calls []raysys.TaskID) error {
	method, ok := p.Runs(by)
	if !ok {
		return raysys.ErrUnknownFunc
	}
	for len(calls) > 0 {
		n := min(len(calls), maxAsks)
		frame := wire.AppendUvarint(wire.AppendBytes(wire.AppendUvarint(nil, uint64(method)), key), uint64(n))
		for _, id := range calls[:n] {
			frame = wire.AppendID(frame, id)
		}
		if err := p.Send(wire.Control, wire.KindCallAsk, frame); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

// askedOpen handles KindCallAsk.
func (p *peer) askedOpen(r *wire.Reader) error {
	number, key, n := r.Uint32(), string(r.Bytes()), r.Count(16)
	if err := r.Err(); err != nil {
		return err
	}
	entry := p.Entry(number)
	if entry == nil {
		return nil // the peer took another incarnation's number
	}
	if _, ok := entry.Impl.(*methodVariants); !ok {
		return fmt.Errorf("%w: %s is no method", wire.ErrCorrupt, entry)
	}
	method, ok := p.Runs(entry)
	if !ok {
		return nil
	}
	var frame []byte
	now := p.engine.cfg.Rough()
	for range n {
		id := r.ID()
		if p.engine.open.has(id, now) {
			continue
		}
		if frame = appendForget(frame, method, key, id); len(frame) > wire.InlineLimit/2 {
			_ = p.Send(wire.Control, wire.KindCallForget, frame) // one that is lost leaves replies behind
			frame = frame[:0]
		}
	}
	_ = p.Send(wire.Control, wire.KindCallForget, appendForget(frame, method, key, raysys.TaskID{}))
	return r.Err()
}
