package linktest

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/pipe"
)

// end is one end of a connection made of two halves.
type end struct {
	in, out       *pipe.Half
	local, remote net.Addr
	due           func() time.Time // when bytes written now may be read; nil for at once
	closed        func()           // called by the first Close; may be nil
	once          sync.Once
}

func (c *end) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	return n, c.wrap("read", err)
}

func (c *end) Write(b []byte) (int, error) {
	n, err := c.out.Write(b, c.when(), true)
	return n, c.wrap("write", err)
}

// TryWrite writes what has room now; package link asks for it.
func (c *end) TryWrite(b []byte) (int, error) {
	n, err := c.out.Write(b, c.when(), false)
	return n, c.wrap("write", err)
}

func (c *end) when() time.Time {
	if c.due == nil {
		return time.Time{}
	}
	return c.due()
}

func (c *end) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}

// CloseWrite ends this direction; the other side reads the bytes that are there and then the end.
func (c *end) CloseWrite() error {
	c.out.End()
	return nil
}

func (c *end) Close() error {
	c.once.Do(func() {
		c.out.End()
		c.in.Deafen()
		c.SetDeadline(time.Time{}) // stops the timers
		if c.closed != nil {
			c.closed()
		}
	})
	return nil
}

func (c *end) LocalAddr() net.Addr  { return c.local }
func (c *end) RemoteAddr() net.Addr { return c.remote }

func (c *end) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *end) SetReadDeadline(t time.Time) error {
	c.in.SetReadDeadline(t)
	return nil
}

func (c *end) SetWriteDeadline(t time.Time) error {
	c.out.SetWriteDeadline(t)
	return nil
}
