package link

import "sync/atomic"

// polite lets those go first who wait for the processor with small frames. A bulk connection at full speed keeps its
// thread busy, and the system's scheduler would let a thread that wakes for a small frame wait until the other's slice
// is over, for milliseconds. Between two cuts the thread therefore offers the processor.
//
// Others take such an offer too, and whoever computes keeps what it took for a whole slice. So what an offer cost is not
// offered again before four times that has passed: at most a fifth of the time goes to others that way.
type polite struct {
	calls *atomic.Int64 // when the link had a request or a reply last
	now   func() int64
	yield func() // to the system's other threads
	until int64  // no offer before that
}

// politeFor is for how long after a request or reply others are expected, in nanoseconds.
const politeFor = 1e9

func (p *polite) offer() {
	begin := p.now()
	if begin < p.until || begin-p.calls.Load() > politeFor {
		return
	}
	p.yield()
	end := p.now()
	p.until = end + 4*(end-begin)
}
