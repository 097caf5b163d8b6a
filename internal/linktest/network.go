package linktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/pipe"
)

// Network is the in-memory twin of the transports: connections between named nodes of one process, with the faults
// that a real network has, at any moment. It works in a testing/synctest bubble, where delays take no time.
//
// A node's transport listens at NODE:PORT, whatever host it is asked to listen at.
type Network struct {
	mu        sync.Mutex // guards the rest, and is taken before a half's
	rand      *rand.Rand
	listeners map[string]*memListener
	ports     int
	conns     map[*memConn]struct{}
	cut       map[way]bool
	paused    map[raysys.NodeID]bool
	delays    map[way]delay
	changed   chan struct{} // closed, and made anew, when a fault begins or ends
}

// way is one direction between two nodes.
type way struct{ from, to raysys.NodeID }

type delay struct{ latency, jitter time.Duration }

// memConn is a connection, which both ends share.
type memConn struct {
	dialer, listener raysys.NodeID
	there, back      *pipe.Half // from the dialer, and to it
	open             int        // ends that are not closed
	severed          bool       // for ever
}

func (c *memConn) between(a, b raysys.NodeID) bool {
	return c.dialer == a && c.listener == b || c.dialer == b && c.listener == a
}

// socketBytes is what a connection buffers each way, as loopback does.
const socketBytes = 256 << 10

// NewNetwork makes a network whose jitter repeats under one seed.
func NewNetwork(seed uint64) *Network {
	return &Network{
		rand: rand.New(rand.NewPCG(seed, 0x6c696e6b)), listeners: map[string]*memListener{}, conns: map[*memConn]struct{}{},
		cut: map[way]bool{}, paused: map[raysys.NodeID]bool{}, delays: map[way]delay{}, changed: make(chan struct{}),
	}
}

// Transport returns a node's end of the network.
func (n *Network) Transport(node raysys.NodeID) link.Transport { return &memTransport{n, node} }

type memTransport struct {
	net  *Network
	node raysys.NodeID
}

// Listen implements link.Transport.
func (t *memTransport) Listen(_ context.Context, addr string) (net.Listener, error) {
	_, port, _ := net.SplitHostPort(addr)
	n := t.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "" || port == "0" {
		n.ports++
		port = strconv.Itoa(n.ports)
	}
	at := string(t.node) + ":" + port
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("listen at %s: %w", at, syscall.EADDRINUSE)
	}
	ln := &memListener{net: n, at: pipe.Addr(at), queue: make(chan net.Conn, 128), done: make(chan struct{})}
	n.listeners[at] = ln
	return ln, nil
}

// Dial implements link.Transport. While the way is cut, it waits.
func (t *memTransport) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n := t.net
	host, _, _ := strings.Cut(addr, ":")
	to := raysys.NodeID(host)
	for waited := false; ; {
		n.mu.Lock()
		pause := n.delayOf(way{t.node, to}) + n.delayOf(way{to, t.node})
		if open := !n.cut[way{t.node, to}] && !n.cut[way{to, t.node}]; open && (waited || pause == 0) {
			conn, err := n.connect(t.node, to, addr)
			n.mu.Unlock()
			return conn, err
		} else if !open {
			pause = time.Duration(1<<63 - 1)
		}
		changed := n.changed
		n.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			waited = true
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("dial %s: %w: %w", addr, link.ErrUnreachable, context.Cause(ctx))
		}
		timer.Stop()
	}
}

// Secure implements link.Transport.
func (t *memTransport) Secure(conn net.Conn, _ bool) net.Conn { return conn }

// connect is called with mu held.
func (n *Network) connect(from, to raysys.NodeID, addr string) (net.Conn, error) {
	ln := n.listeners[addr]
	if ln == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, link.ErrRefused)
	}
	c := &memConn{dialer: from, listener: to, there: pipe.NewHalf(socketBytes), back: pipe.NewHalf(socketBytes), open: 2}
	n.ports++
	near := pipe.Addr(string(from) + ":" + strconv.Itoa(n.ports))
	closed := func() { n.closed(c) }
	a := &end{in: c.back, out: c.there, local: near, remote: ln.at, due: func() time.Time { return n.due(way{from, to}) }, closed: closed}
	b := &end{in: c.there, out: c.back, local: ln.at, remote: near, due: func() time.Time { return n.due(way{to, from}) }, closed: closed}
	select {
	case ln.queue <- b:
	default:
		return nil, fmt.Errorf("dial %s: %w: its queue of connections is full", addr, link.ErrUnreachable)
	}
	n.conns[c] = struct{}{}
	n.gate(c)
	return a, nil
}

func (n *Network) closed(c *memConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.open--
	if c.open == 0 {
		delete(n.conns, c)
	}
}

// due returns when bytes sent now arrive.
func (n *Network) due(w way) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.delayOf(w); d > 0 {
		return time.Now().Add(d)
	}
	return time.Time{}
}

func (n *Network) delayOf(w way) time.Duration {
	d := n.delays[w]
	if d.jitter > 0 {
		return d.latency + time.Duration(n.rand.Int64N(int64(d.jitter)))
	}
	return d.latency
}

// memListener takes connections for one address.
type memListener struct {
	net   *Network
	at    pipe.Addr
	queue chan net.Conn
	done  chan struct{} // closed by Close
	once  sync.Once
}

// Accept implements net.Listener.
func (ln *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.queue:
		return c, nil
	case <-ln.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (ln *memListener) Close() error {
	ln.once.Do(func() {
		ln.net.mu.Lock()
		if ln.net.listeners[string(ln.at)] == ln {
			delete(ln.net.listeners, string(ln.at))
		}
		ln.net.mu.Unlock() // from here on no connection is queued
		close(ln.done)
		for {
			select {
			case c := <-ln.queue:
				c.Close()
				continue
			default:
			}
			return
		}
	})
	return nil
}

// Addr implements net.Listener.
func (ln *memListener) Addr() net.Addr { return ln.at }
