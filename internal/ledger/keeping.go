package ledger

import "time"

// What older work lacks is kept from younger, or a stream of small needs would starve a large one; but not for ever, or a large one
// that cannot begin would starve the rest. Two things are asked of work that is short of something:
//
//	does it come back?   beside what stays with grains of kinds that Keep, with bundles, and with sick devices
//	is it kept now?      for 10 s from when it was its turn, then left for 10 s, 20 s and 20 s, and so on up to 640 s
//
// It is the turn of work when it comes, or when the work of its shape before it has begun: a stream of large work that does begin has
// what it lacks kept all the time.
//
// A Gathering keeps what it waits for by a clock of its own, that of its group.
const (
	firstKept = 10 * time.Second
	mostKept  = 640 * time.Second
)

// Keeper is Work that may have what it has for as long as the node lives.
type Keeper interface {
	// Keeps reports whether that is so.
	Keeps() bool
}

// phase says whether what work lacks is kept for it when its turn has lasted so long, and until when.
func phase(waited time.Duration) (keeps bool, until time.Duration) {
	for length := firstKept; ; length = min(2*length, mostKept) {
		if length == mostKept && waited >= until+2*length { // far ahead
			until += (waited - until) / (2 * length) * (2 * length)
		}
		for _, keeps := range []bool{true, false} {
			if until += length; waited < until {
				return keeps, until
			}
		}
	}
}

// keepsFor reports whether what the oldest claim of s lacks is kept for it, and when that may change. The caller holds mu.
func (l *Line) keepsFor(s *shape, now int64) (keeps bool, until int64) {
	if _, short := l.staying.look(&s.need, nil); !short.Empty() || s.need.CPU > l.staying.CPU.Load() {
		return false, 0
	}
	if gathers(s.claims[0].work) {
		return true, 0
	}
	keeps, end := phase(time.Duration(now - s.turn))
	return keeps, s.turn + int64(end)
}

// stays notes that what h has is not given back soon.
func (l *Line) stays(h *Hold) {
	h.stays = true
	l.staying.enter(&h.need, h.devices, -1)
	l.staying.CPU.Add(-h.need.CPU)
}

// returns is called with what is given back.
func (l *Line) returns(h *Hold) {
	if h.stays {
		l.staying.Return(*h)
	}
}

// look arranges a look at the line at that time, when more is kept, or less; 0 is never. The caller holds mu.
func (l *Line) look(at, now int64) {
	if at == 0 || l.hooks.Later == nil || l.looksAt > now && l.looksAt <= at {
		return
	}
	l.looksAt = at
	l.hooks.Later(at, func() {
		l.Serve()
		l.hooks.Freed()
	})
}
