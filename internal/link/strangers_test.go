package link_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// TestSilentStrangers: of connections from one address that say nothing, the oldest give way and the log says so; an honest
// peer comes in beside them.
func TestSilentStrangers(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}), func(c *link.Config) { c.HandshakeTimeout = time.Minute })
	const more = 3
	var conns []net.Conn
	for range link.MaxSilent {
		conns = append(conns, dialRaw(t, b))
	}
	late := func() {
		conns = append(conns, dialRaw(t, b))
		b.expect("rejected : closed for a newer one: 256 connections of 127.0.0.1 have sent no hello")
	}
	for range more {
		late()
	}
	ended := 0
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if i < more {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
		} else if i > more+2 {
			break
		}
		_, err := c.Read(make([]byte, 1))
		if over := !errors.Is(err, os.ErrDeadlineExceeded); over != (i < more) {
			t.Errorf("silent connection %d was to give way: %v, and its end is %v", i, i < more, err)
		} else if over {
			ended++
		}
	}
	if ended != more {
		t.Errorf("%d of the oldest connections gave way to %d newer ones", ended, more)
	}
	a := open(t, "a", link.TCP(link.TCPConfig{}))
	a.connect(b).Send(wire.Requests, kindEcho, []byte("alive"))
	a.expect("b replies: alive")
}

// crowd listens for connections that a test makes, from any address.
type crowd struct {
	link.Transport
	conns chan net.Conn
}

func (c *crowd) Listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := c.Transport.Listen(ctx, addr)
	return &crowdListener{ln, c.conns}, err
}

type crowdListener struct {
	net.Listener
	conns chan net.Conn // closed by Close
}

func (l *crowdListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *crowdListener) Close() error {
	close(l.conns)
	return l.Listener.Close()
}

type stranger struct {
	net.Conn
	from net.TCPAddr
}

func (s *stranger) RemoteAddr() net.Addr { return &s.from }

// TestSilentStrangersOfManyAddresses: of connections that say nothing, from however many addresses, the oldest gives way when
// there are too many handshakes together.
func TestSilentStrangersOfManyAddresses(t *testing.T) {
	c := &crowd{link.TCP(link.TCPConfig{}), make(chan net.Conn)}
	b := open(t, "b", c, func(c *link.Config) { c.HandshakeTimeout = time.Minute })
	var conns []net.Conn
	for i := range link.MaxShaking + 1 {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close() })
		conns = append(conns, here)
		c.conns <- &stranger{there, net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(i%8)), Port: 1 + i}}
	}
	b.expect("rejected : closed for a newer one: 1024 handshakes are under way")
	for i, conn := range conns[:3] {
		limit := 50 * time.Millisecond
		if i == 0 {
			limit = 20 * time.Second
		}
		conn.SetReadDeadline(time.Now().Add(limit))
		_, err := conn.Read(make([]byte, 1))
		if over := !errors.Is(err, os.ErrDeadlineExceeded); over != (i == 0) {
			t.Errorf("of %d silent connections number %d ended: %v, %v; want the first alone to give way", len(conns), i, over, err)
		}
	}
}

// TestLargeHellos: what strangers send of large first messages, which never end, is bounded together.
func TestLargeHellos(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}), func(c *link.Config) { c.HandshakeTimeout = time.Minute })
	var w bytes.Buffer
	link.WriteMessage(&w, 1, make([]byte, 1<<20))
	unfinished := w.Bytes()[:w.Len()-1]
	for range link.MaxHellos>>20 + 2 {
		conn := dialRaw(t, b)
		if _, err := io.Copy(conn, bytes.NewReader(unfinished)); err != nil {
			t.Fatal(err)
		}
	}
	b.expect("rejected : closed for others: ")
	a := open(t, "a", link.TCP(link.TCPConfig{}))
	a.connect(b).Send(wire.Requests, kindEcho, []byte("alive"))
	a.expect("b replies: alive")
}
