package transfer

import (
	"errors"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// late decides what becomes of a source from which nothing came for a while, and returns when to look again.
func (d *feed) late(peer Peer) (time.Duration, error) {
	f := d.flight
	f.mu.Lock()
	limit := f.e.cfg.Stall << d.stalls
	waits := !d.ready || len(d.pending) > 0
	f.mu.Unlock()
	idle := f.e.now() - time.Duration(d.heard.Load())
	switch {
	case !waits:
		d.heardNow()
		return limit, nil
	case idle < limit:
		return limit - idle, nil
	}
	return limit * 2, d.still(peer)
}

// maxStalls is how often in a row a source may stand still, each time twice as long.
const maxStalls = 5

// errStill is what a source did that was given up.
var errStill = errors.New("it stands still")

// still handles a source that stands still.
func (d *feed) still(peer Peer) error {
	f := d.flight
	f.e.counts.stalled.Add(1)
	if d.root != (core.NodeKey{}) {
		return &sourceError{d.key, codeGone, errStill}
	}
	f.mu.Lock()
	d.slow = true
	if d.stalls++; d.stalls > maxStalls {
		f.mu.Unlock()
		return &sourceError{d.key, codeGone, errStill}
	}
	others := false
	for o := range f.feeds {
		others = others || o.ready && !o.slow
	}
	ready, l := d.ready, d.landing
	spans := d.listOpenSpans()
	if others {
		f.cargo.release(d)
	}
	f.mu.Unlock()
	d.heardNow()
	f.wake() // for another source
	switch {
	case !ready:
		return d.pull(peer)
	case others:
		if l != nil {
			peer.Abandon(l)
		}
		f.pumpAll()
	case l == nil: // the asks may have been lost; chunks that come twice are skipped
		f.askForSpans(peer, d.slot, spans)
	}
	return nil
}

// listOpenSpans lists what the source was asked for and is not landing. The flight's mu is held.
func (d *feed) listOpenSpans() (spans []span) {
	for _, i := range d.pending {
		if d.flight.cargo.chunks[i].place == asked {
			spans = extend(spans, i)
		}
	}
	return spans
}
