package link

import "sync/atomic"

// polite lets threads that handle small frames go first. A bulk connection at full speed keeps its thread busy, and
// the system's scheduler would let a thread that wakes for a small frame wait until the other's slice is over, for
// milliseconds. While there are calls, what one system call moves is therefore short, and after each the thread
// offers the processor. A thread that computes takes such an offer too, and keeps the processor for a whole slice. An
// offer that cost so much is not repeated before as much time has passed: one half of the time is more than the
// scheduler would take away unasked.
type polite struct {
	calls *atomic.Int64 // when the link had a request or a reply last
	now   func() int64
	yield func() // to the system's other threads
	until int64  // no offer before that
}

const (
	// politeFor is for how long after a request or reply others are expected, in nanoseconds. Offers cost a transfer
	// a tenth of its speed: it does not pay that for occasional calls.
	politeFor = 10e6
	// politeCost is what an offer may cost, in nanoseconds, before it counts as taken by a thread that computes.
	politeCost = 500e3

	politeCut = 128 * kib
	cutBytes  = 1024 * kib // while there are no calls
)

// cut is how much of a bulk frame the next system call is to move.
func (p *polite) cut() int {
	if p.noCalls(p.now()) {
		return cutBytes
	}
	return politeCut
}

func (p *polite) noCalls(now int64) bool { return now-p.calls.Load() > politeFor }

func (p *polite) offer() {
	begin := p.now()
	if begin < p.until || p.noCalls(begin) {
		return
	}
	p.yield()
	end := p.now()
	if cost := end - begin; cost > politeCost {
		p.until = end + cost
	}
}
