package grainengine

import (
	"errors"
	"fmt"

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
		p.answerValue(v, value)
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
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = appendAnswer(*buf, v.slot, statusValue)
	at := len(*buf)
	out, here, err := v.call.answer(*buf, p.Peer)
	if !here {
		return false
	}
	*buf = out
	if !p.gone.Load() && v.answered.CompareAndSwap(false, true) {
		p.sendAnswer(v, buf, at, err)
	}
	return true
}

func (p *peer) answerValue(v *inboundCall, value any) {
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = appendAnswer(*buf, v.slot, statusValue)
	at := len(*buf)
	var err error
	*buf, err = wire.AppendResult(*buf, v.result, wire.AddressOf(value), &v.call.Future, p.Peer)
	p.sendAnswer(v, buf, at, err)
}

// sendAnswer sends what is in buf, where the value begins at; err says that there is none.
func (p *peer) sendAnswer(v *inboundCall, buf *[]byte, at int, err error) {
	switch {
	case err != nil:
		p.answerError(v.slot, fmt.Errorf("%s: result: %w", v.name(), err))
	case len(*buf)-at > wire.InlineLimit:
		if err := p.SendLarge(wire.KindCallResult, append([]byte(nil), *buf...)); err != nil && !errors.Is(err, raysys.ErrNotDelivered) {
			p.answerError(v.slot, fmt.Errorf("%s: result: %w", v.name(), err))
		}
	case v.last():
		p.Cork()
		p.reply(v.slot, *buf)
		p.Uncork(true)
	default:
		p.reply(v.slot, *buf)
	}
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
