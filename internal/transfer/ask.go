package transfer

import (
	"github.com/raysys/raysys/internal/wire"
)

// pump asks d for as many chunks as its window has room for. It is called without locks, also by landings, on the
// reader of the connection that they came over: the next ask leaves before any waiter is woken.
func (f *flight) pump(d *feed) {
	f.mu.Lock()
	if f.decided || f.in == nil || !d.ready || d.peer == nil {
		f.mu.Unlock()
		return
	}
	window := f.e.cfg.Window
	if room := window - len(d.pending); room < min(window, (window+3)/4) && len(d.pending) > 0 {
		f.mu.Unlock() // a few at a time
		return
	}
	var spans []span
	for len(d.pending) < window {
		i := f.cargo.take(d)
		if i < 0 && !d.slow && f.steal() {
			i = f.cargo.take(d)
		}
		if i < 0 {
			break
		}
		spans = extend(spans, i)
	}
	peer, slot := d.peer, d.slot
	f.mu.Unlock()
	f.ask(peer, slot, spans)
}

func (f *flight) ask(peer Peer, slot uint64, spans []span) {
	if len(spans) == 0 {
		return
	}
	// Chunks that do not arrive are asked for again when the link is down, or when nothing came for a while.
	_ = peer.Send(wire.Control, wire.KindAsk, appendAsk(make([]byte, 0, 32), slot, spans))
	peer.Flush()
}

func extend(spans []span, i int) []span {
	if last := len(spans) - 1; last >= 0 && spans[last].first+spans[last].n == i {
		spans[last].n++
		return spans
	}
	return append(spans, span{i, 1})
}

// steal reopens what sources that stand still were asked for. mu is held.
func (f *flight) steal() bool {
	before := len(f.cargo.again)
	for d := range f.feeds {
		if d.slow {
			f.cargo.release(d)
		}
	}
	return len(f.cargo.again) > before
}

// pumpAll asks every source with room, after chunks were opened again.
func (f *flight) pumpAll() {
	f.mu.Lock()
	feeds := make([]*feed, 0, len(f.feeds))
	for d := range f.feeds {
		feeds = append(feeds, d)
	}
	f.mu.Unlock()
	for _, d := range feeds {
		f.pump(d)
	}
}
