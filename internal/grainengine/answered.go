package grainengine

import (
	"fmt"
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
		return nil // it was cancelled here
	}
	return p.answer(o, status, r)
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
		if !l.found[i] {
			continue
		}
		if err := p.answer(l.calls[i], l.status[i], &l.items[i]); err != nil && bad == nil {
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
		if err := o.call.settle(*r, p.Peer); err != nil {
			o.fail(fmt.Errorf("%s: result from node %s: %w", o.name(), p.Node(), err))
			return corrupt(err)
		}
		o.done()
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
