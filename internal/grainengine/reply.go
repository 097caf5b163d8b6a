package grainengine

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

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
