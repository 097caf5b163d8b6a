package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/store"
)

// whyGone says what can have ended the session.
func whyGone(m *Member) string {
	start := m.lease.start.Load()
	if start == nil {
		return "it was not renewed for too long, or another node or a person ended it"
	}
	ago := start.elapsed(m.cfg.Clock)
	if ago >= m.cfg.TTL {
		return fmt.Sprintf("it was renewed last %v ago, and its TTL is %v", ago.Round(time.Millisecond), m.cfg.TTL)
	}
	return fmt.Sprintf("it was renewed %v ago, so that its TTL of %v did not end it: another node proved this one dead, a person ended it, or the store lost it, as Consul does with the node in its catalog on which a session was made",
		ago.Round(time.Millisecond), m.cfg.TTL)
}

// passing reports whether an error of the store may pass by itself.
func passing(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrSessionGone) || errors.Is(err, store.ErrRefused) ||
		errors.Is(err, errAgain)
}

// hostOf is the part of an address that names the machine; the whole of it where there is no port.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i]
	}
	return address
}

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

// holds reports whether it had not run out at a moment.
func (l *lease) holds(now reading) bool {
	start := l.start.Load()
	return start != nil && now.since(*start) < l.ttl
}
