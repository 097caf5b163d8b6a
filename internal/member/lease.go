package member

import (
	"sync/atomic"
	"time"
)

// lease is one TTL from the start of the last good renewal: the server began its own TTL later than that, so that the session
// outlives the lease. The zero reading, nil, is no lease.
type lease struct {
	clock Clock
	ttl   time.Duration
	start atomic.Pointer[reading]
}

func (l *lease) extend(start reading) { l.start.Store(&start) }

func (l *lease) void() { l.start.Store(nil) }

// left is what remains of the lease, 0 when it ran out.
func (l *lease) left() time.Duration {
	start := l.start.Load()
	if start == nil {
		return 0
	}
	return max(l.ttl-start.elapsed(l.clock), 0)
}
