package tasks

import (
	"fmt"

	"github.com/raysys/raysys/internal/wire"
)

// HandleResult takes a KindTaskResult frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResult(wp wire.Peer, frame []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := readers.Get().(*wire.Reader)
	defer putReader(r)
	*r = wire.NewReader(frame)
	if err := x.results(p, r); err != nil {
		return err
	}
	x.answered()
	return nil
}

// HandleResults takes a KindTaskResults frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResults(wp wire.Peer, list []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := readers.Get().(*wire.Reader)
	defer putReader(r)
	all := wire.NewReader(list)
	for all.Len() > 0 {
		*r = wire.NewReader(all.Bytes())
		if err := all.Err(); err != nil {
			return fmt.Errorf("results from node %s: %w", p.Node(), err)
		}
		if err := x.results(p, r); err != nil {
			return err
		}
	}
	x.answered()
	return nil
}

func (x *exchange) results(p *peer, r *wire.Reader) error {
	if flags := r.Uvarint(); flags&resultLoad != 0 {
		l, err := ReadLoad(r)
		if err != nil {
			return fmt.Errorf("load of node %s: %w", p.Node(), err)
		}
		x.loaded(p, l)
	}
	for r.Len() > 0 {
		if err := x.result(p, r); err != nil {
			return fmt.Errorf("result from node %s: %w", p.Node(), err)
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("result from node %s: %w", p.Node(), err)
	}
	return nil
}

// answered is called when results have come: there may be room for more tasks.
func (x *exchange) answered() {
	switch x.state.Load() {
	case awake:
	case stalled:
		if x.opened() {
			x.poke()
		}
	default:
		// Nobody who had room could run what is aside.
		if x.aside.wanted(x) {
			x.poke()
		}
	}
	x.e.ebb()
}

// result takes one result. That of a slot that was answered before, or never used, changes nothing.
func (x *exchange) result(p *peer, r *wire.Reader) error {
	slot := readSlot(r)
	status := r.Byte()
	if err := r.Err(); err != nil {
		return err
	}
	f, found := p.flights.Take(slot)
	var w traveller
	if found {
		// The task may wait again before this returns, and what it waits for is room.
		x.left(p, f)
		w = f.task.Work().(traveller)
	}
	switch status {
	case resultValue:
		if !found {
			r.Rest()
			return nil
		}
		if err := w.landed(r, p, p.Node()); err != nil {
			w.lost(x, p.Node(), err)
			return err
		}
	case resultError:
		err := wire.ReadError(r)
		switch {
		case !found:
		case r.Err() != nil:
			w.lost(x, p.Node(), r.Err())
		default:
			w.failedThere(err)
		}
	case resultBounced:
		if found {
			x.refused(p)
			x.putBack(f.task, w)
		}
	case resultLost:
		if found {
			p.avoid.Store(true)
			w.lost(x, p.Node(), errClosing)
		}
	default:
		err := fmt.Errorf("%w: a result of status %d", wire.ErrCorrupt, status)
		if found {
			w.lost(x, p.Node(), err)
		}
		return err
	}
	return nil
}
