package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
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
		b.expect("rejected : closed for a newer one: 256 connections of 127.0.0.1 have not said who they are")
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
	a.connect(b).Send(link.Requests, kindEcho, []byte("alive"))
	a.expect("b replies: alive")
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
	a.connect(b).Send(link.Requests, kindEcho, []byte("alive"))
	a.expect("b replies: alive")
}
