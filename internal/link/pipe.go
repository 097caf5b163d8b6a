package link

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// half is one direction of a connection in memory: bytes in order, with a bound, deadlines, a moment from which each
// may be read, and a gate that holds them back while the network is cut.
type half struct {
	limit int

	mu       sync.Mutex // guards the rest
	cond     *sync.Cond // anything changed
	segments []segment
	bytes    int
	held     bool  // the network is cut: nothing passes, not even an end
	ended    bool  // no more is written
	deaf     bool  // no more is read
	broken   error // what both sides get once it passes
	readBy   deadline
	writeBy  deadline
}

type segment struct {
	b   []byte
	due time.Time // zero for at once
}

// deadline is the time from which a side does not wait any more.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func newHalf(limit int) *half {
	h := &half{limit: limit}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// wake is called by timers. It takes the lock, so that nobody misses it between looking and waiting.
func (h *half) wake() {
	h.mu.Lock()
	h.cond.Broadcast()
	h.mu.Unlock()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(at time.Time, wake func()) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	// One that has passed needs no timer: setDeadline wakes everybody. (A timer that is due at once runs in the call that sets
	// it, where the race detector of Go 1.26 crashes now and then within a bubble of testing/synctest.)
	if left := time.Until(at); !at.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake)
	}
}

func (h *half) setDeadline(d *deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.set(at, h.wake)
	h.cond.Broadcast()
}

func (h *half) read(b []byte) (int, error) {
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
		case h.readBy.passed():
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

func (h *half) take(b []byte) int {
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

// write queues b; with wait unset, as much of it as has room.
func (h *half) write(b []byte, due time.Time, wait bool) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(b) > 0 {
		switch {
		case h.ended:
			return n, net.ErrClosed
		case h.writeBy.passed():
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

// change applies f and lets everybody look again.
func (h *half) change(f func()) {
	h.mu.Lock()
	f()
	h.cond.Broadcast()
	h.mu.Unlock()
}

// pipeConn is one end of a connection made of two halves.
type pipeConn struct {
	in, out       *half
	local, remote net.Addr
	due           func() time.Time // when what is written now may be read; nil for at once
	closed        func()           // called by the first Close; may be nil
	once          sync.Once
}

// memAddr is an address in memory, or of a relayed connection.
type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

func (c *pipeConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

func (c *pipeConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b, c.when(), true)
	return n, c.wrap("write", err)
}

// TryWrite implements tryWriter.
func (c *pipeConn) TryWrite(b []byte) (int, error) {
	n, err := c.out.write(b, c.when(), false)
	return n, c.wrap("write", err)
}

func (c *pipeConn) when() time.Time {
	if c.due == nil {
		return time.Time{}
	}
	return c.due()
}

func (c *pipeConn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}

// CloseWrite ends this direction; the other side reads what is there and then the end.
func (c *pipeConn) CloseWrite() error {
	c.out.change(func() { c.out.ended = true })
	return nil
}

func (c *pipeConn) Close() error {
	c.once.Do(func() {
		c.out.change(func() { c.out.ended = true })
		c.in.change(func() {
			c.in.deaf = true
			c.in.segments, c.in.bytes = nil, 0
		})
		c.SetDeadline(time.Time{}) // stops the timers
		if c.closed != nil {
			c.closed()
		}
	})
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.local }
func (c *pipeConn) RemoteAddr() net.Addr { return c.remote }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}
