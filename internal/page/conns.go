package page

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// readerOf is who reads from a remote address HOST:PORT: the host. A host has a whole /64 of IPv6 addresses.
func readerOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if net, err := ip.Prefix(64); err == nil {
			return net.String()
		}
	}
	return ip.String()
}

// rooms bounds what there is at once: all of it, and each reader's.
type rooms struct {
	most, each int

	mu  sync.Mutex // guards the rest
	all int
	by  map[string]int // of readers
}

func newRooms(most, each int) *rooms { return &rooms{most: most, each: each, by: map[string]int{}} }

// enter takes a room for the reader. Where it returns true, the caller calls leave.
func (r *rooms) enter(reader string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= r.most || r.by[reader] >= r.each {
		return false
	}
	r.all++
	r.by[reader]++
	return true
}

func (r *rooms) leave(reader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.by[reader]--; r.by[reader] == 0 {
		delete(r.by, reader)
	}
}

// conns bounds the connections. Each one is accepted, since its request may be for the health. One more than there may be turns away the
// connection that has been idle longest: of its reader where that has too many, else of all.
type conns struct {
	mu   sync.Mutex // guards the rest
	idle *list.List // of *accepted: the connections without a request, that which has been idle longest first
	by   map[net.Conn]*accepted
	of   map[string]int // connections by reader
}

type accepted struct {
	conn   net.Conn
	reader string
	idle   *list.Element // nil while a request is answered
}

func newConns() *conns {
	return &conns{idle: list.New(), by: map[net.Conn]*accepted{}, of: map[string]int{}}
}

// state is an http.Server's ConnState. net/http calls it outside of its recover: a panic here would end the process.
func (c *conns) state(conn net.Conn, to http.ConnState) {
	away := c.note(conn, to)
	if t, ok := away.(*tls.Conn); ok {
		away = t.NetConn() // the Close of TLS writes, and may wait for that
	}
	if away != nil {
		_ = away.Close()
	}
}

// note returns the connection that is turned away, if any. The server goes on to tell the states of that one: it is known no more.
func (c *conns) note(conn net.Conn, to http.ConnState) (away net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == http.StateNew && c.by[conn] == nil {
		a := &accepted{conn: conn, reader: readerOf(conn.RemoteAddr().String())}
		c.by[conn] = a
		c.of[a.reader]++
	}
	a := c.by[conn]
	if a == nil {
		return nil
	}
	if a.idle != nil {
		c.idle.Remove(a.idle)
		a.idle = nil
	}
	switch to {
	case http.StateNew, http.StateIdle:
		a.idle = c.idle.PushBack(a)
		if out := c.over(a); out != nil {
			c.idle.Remove(out.idle)
			c.forget(out)
			return out.conn
		}
	case http.StateClosed, http.StateHijacked:
		c.forget(a)
	}
	return nil
}

// over is the connection that is too many now that a is idle, nil for none.
func (c *conns) over(a *accepted) *accepted {
	own := c.of[a.reader] > eachConns
	if !own && len(c.by) <= maxConns {
		return nil
	}
	for e := c.idle.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*accepted); !own || one.reader == a.reader {
			return one
		}
	}
	return nil
}

func (c *conns) forget(a *accepted) {
	delete(c.by, a.conn)
	if c.of[a.reader]--; c.of[a.reader] == 0 {
		delete(c.of, a.reader)
	}
}
