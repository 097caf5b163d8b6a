package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Half is one direction of a connection in memory: bytes in order, with a bound, deadlines, a moment from which each
// may be read, and a gate that holds them back while the network is cut.
type Half struct {
	limit int

	mu       sync.Mutex // guards the rest
	cond     *sync.Cond // anything changed
	segments []segment
	bytes    int
	held     bool  // by Hold
	ended    bool  // by End
	deaf     bool  // by Deafen
	broken   error // by Break
	readBy   Deadline
	writeBy  Deadline
}

type segment struct {
	b   []byte
	due time.Time // zero for at once
}

// Deadline is the time from which a side does not wait any more.
type Deadline struct {
	at    time.Time
	timer *time.Timer
}

// NewHalf makes a direction that keeps up to limit bytes that were not read.
func NewHalf(limit int) *Half {
	h := &Half{limit: limit}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// wake is called by timers. It takes the lock, so that no goroutine misses it between looking and waiting.
func (h *Half) wake() {
	h.mu.Lock()
	h.cond.Broadcast()
	h.mu.Unlock()
}

// Passed reports whether the time has come.
func (d *Deadline) Passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// Set moves the deadline to at, and has wake called then. The zero time is none.
func (d *Deadline) Set(at time.Time, wake func()) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	// A deadline that has passed needs no timer: setDeadline wakes all waiters. (A timer that is due at once runs in
	// the call that sets it, where the race detector of Go 1.26 crashes now and then within a bubble of
	// testing/synctest.)
	if left := time.Until(at); !at.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake)
	}
}

// SetReadDeadline is about Read, as net.Conn has it.
func (h *Half) SetReadDeadline(at time.Time) { h.setDeadline(&h.readBy, at) }

// SetWriteDeadline is about Write.
func (h *Half) SetWriteDeadline(at time.Time) { h.setDeadline(&h.writeBy, at) }

func (h *Half) setDeadline(d *Deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.Set(at, h.wake)
	h.cond.Broadcast()
}

// Read takes what may be read now, and waits where nothing is there.
func (h *Half) Read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		var due time.Duration
		if len(h.segments) > 0 && !h.segments[0].due.IsZero() {
			due = time.Until(h.segments[0].due)
		}
		switch {
		case h.deaf:
			return 0, net.ErrClosed
		case h.readBy.Passed():
			return 0, os.ErrDeadlineExceeded
		case h.held:
		case h.broken != nil:
			return 0, h.broken
		case len(h.segments) > 0 && due <= 0:
			return h.take(b), nil
		case len(h.segments) > 0:
			timer := time.AfterFunc(due, h.wake)
			h.cond.Wait()
			timer.Stop()
			continue
		case h.ended:
			return 0, io.EOF
		}
		if len(b) == 0 {
			return 0, nil
		}
		h.cond.Wait()
	}
}

func (h *Half) take(b []byte) int {
	s := &h.segments[0]
	n := copy(b, s.b)
	s.b = s.b[n:]
	h.bytes -= n
	if len(s.b) == 0 {
		h.segments[0] = segment{}
		h.segments = h.segments[1:]
	}
	h.cond.Broadcast()
	return n
}

// Write queues b, to be read from due on; with wait unset, as much of it as has room.
func (h *Half) Write(b []byte, due time.Time, wait bool) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(b) > 0 {
		switch {
		case h.ended:
			return n, net.ErrClosed
		case h.writeBy.Passed():
			return n, os.ErrDeadlineExceeded
		case h.broken != nil && !h.held:
			return n, h.broken
		case h.deaf && !h.held:
			return n, syscall.EPIPE
		case h.bytes < h.limit:
			m := min(len(b), h.limit-h.bytes)
			if last := len(h.segments) - 1; last >= 0 && h.segments[last].due.After(due) {
				due = h.segments[last].due // bytes stay in order
			}
			h.segments = append(h.segments, segment{append([]byte(nil), b[:m]...), due})
			h.bytes += m
			n += m
			b = b[m:]
			h.cond.Broadcast()
			continue
		case !wait:
			return n, nil
		}
		h.cond.Wait()
	}
	return n, nil
}

// Hold stops everything in this direction, or lets it pass again: bytes, and ends and errors too.
func (h *Half) Hold(on bool) { h.change(func() { h.held = on }) }

// Break makes both sides fail with its error at once, before bytes that are there.
func (h *Half) Break(err error) { h.change(func() { h.broken = err }) }

// End closes the writing side: the reader gets the bytes that are there and then io.EOF.
func (h *Half) End() { h.change(func() { h.ended = true }) }

// Deafen closes the reading side, and drops the bytes that are there.
func (h *Half) Deafen() {
	h.change(func() {
		h.deaf = true
		h.segments, h.bytes = nil, 0
	})
}

// change applies f and wakes all waiters.
func (h *Half) change(f func()) {
	h.mu.Lock()
	f()
	h.cond.Broadcast()
	h.mu.Unlock()
}

// Addr is the address of an end that has no socket.
type Addr string

// Network implements net.Addr.
func (Addr) Network() string { return "mem" }

// String implements net.Addr.
func (a Addr) String() string { return string(a) }
