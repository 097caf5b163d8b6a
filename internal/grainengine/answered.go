package grainengine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

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
