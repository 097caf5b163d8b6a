package grainengine

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// answered handles KindCallResult.
func (fp *farPeer) answered(r *wire.Reader) error {
	slot, status := r.Uvarint(), r.Byte()
	if err := r.Err(); err != nil {
		return err
	}
	if status == statusWant {
		fp.wanted(slot)
		return nil
	}
	o, ok := fp.sent.Take(slot)
	if !ok {
		return nil // it was cancelled here
	}
	return fp.answer(o, status, r)
}

func (fp *farPeer) wanted(slot uint64) {
	if o, ok := fp.sent.Look(slot); ok {
		o.sendBody(fp, slot)
	}
}

// landing are answers that are taken in at once, for the price of one lock.
type landing struct {
	n      int
	items  [landingSize]wire.Reader
	slots  [landingSize]uint64
	status [landingSize]byte
	calls  [landingSize]*outgoing
	found  [landingSize]bool
}

const landingSize = 32

var landings = sync.Pool{New: func() any { return new(landing) }}

// answeredAll handles KindCallResults.
func (fp *farPeer) answeredAll(list []byte) error {
	l := landings.Get().(*landing)
	defer func() {
		*l = landing{}
		landings.Put(l)
	}()
	for all := wire.NewReader(list); all.Len() > 0; {
		if err := fp.land(l, &all); err != nil {
			return err
		}
	}
	return nil
}

// land takes in the first answers of a list.
func (fp *farPeer) land(l *landing, all *wire.Reader) error {
	l.n = 0
	for l.n < landingSize && all.Len() > 0 {
		item := wire.NewReader(all.Bytes())
		slot, status := item.Uvarint(), item.Byte()
		if all.Err() != nil || item.Err() != nil {
			return wire.ErrCorrupt
		}
		if status == statusWant {
			fp.wanted(slot)
			continue
		}
		l.items[l.n], l.slots[l.n], l.status[l.n] = item, slot, status
		l.n++
	}
	fp.sent.TakeAll(l.slots[:l.n], l.calls[:], l.found[:])
	var bad error
	for i := range l.n {
		if !l.found[i] {
			continue
		}
		if err := fp.answer(l.calls[i], l.status[i], &l.items[i]); err != nil && bad == nil {
			bad = err // the link is closed; the calls that were taken settle nevertheless
		}
	}
	return bad
}

// answer ends a call that was taken out of sent.
func (fp *farPeer) answer(o *outgoing, status byte, r *wire.Reader) error {
	from := o.came(fp)
	switch status {
	case statusValue:
		if err := o.call.settle(*r, fp.Peer); err != nil {
			o.fail(fmt.Errorf("%s: result from node %s: %w", o.name(), fp.Node(), err))
			return corrupt(err)
		}
		o.over()
	case statusError:
		err := wire.ReadError(r)
		o.fail(err)
		return corrupt(err)
	case statusMoved:
		to := readPlace(r)
		if err := r.Err(); err != nil {
			o.fail(fmt.Errorf("%s: answer from node %s: %w", o.name(), fp.Node(), err))
			return err
		}
		o.moved(from, to)
	default:
		o.fail(fmt.Errorf("%s: node %s answers with outcome %d, which this version does not know: %w", o.name(), fp.Node(), status, raysys.ErrOutcomeUnknown))
	}
	return nil
}
