package linktest

import (
	"syscall"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/pipe"
)

// CutOneWay stops everything from one node to another: bytes, ends and resets wait, without an error on either side.
// It arrives after Heal. New connections, which need both ways, wait too.
func (n *Network) CutOneWay(from, to raysys.NodeID) {
	n.fault(func() { n.cut[way{from, to}] = true })
}

// Cut is CutOneWay in both directions.
func (n *Network) Cut(a, b raysys.NodeID) {
	n.fault(func() { n.cut[way{a, b}], n.cut[way{b, a}] = true, true })
}

// Heal ends what Cut and CutOneWay began between two nodes.
func (n *Network) Heal(a, b raysys.NodeID) {
	n.fault(func() {
		delete(n.cut, way{a, b})
		delete(n.cut, way{b, a})
	})
}

// HealAll ends every cut and pause, and every delay.
func (n *Network) HealAll() {
	n.fault(func() {
		clear(n.cut)
		clear(n.paused)
		clear(n.delays)
	})
}

// Pause is what SIGSTOP does to a node, as others see it: connections are made, and then nothing comes.
func (n *Network) Pause(node raysys.NodeID) { n.fault(func() { n.paused[node] = true }) }

// Resume ends Pause.
func (n *Network) Resume(node raysys.NodeID) { n.fault(func() { delete(n.paused, node) }) }

// Delay makes everything between two nodes take latency and up to jitter more. Bytes of one connection stay in order.
func (n *Network) Delay(a, b raysys.NodeID, latency, jitter time.Duration) {
	n.fault(func() { n.delays[way{a, b}], n.delays[way{b, a}] = delay{latency, jitter}, delay{latency, jitter} })
}

// Kill is what the end of a process does: its connections are reset, and new ones refused until it listens again. The
// test still has to close the links of that process.
func (n *Network) Kill(node raysys.NodeID) {
	n.mu.Lock()
	var listeners []*memListener
	for at, ln := range n.listeners {
		if hostOf(at) == node {
			listeners = append(listeners, ln)
		}
	}
	n.mu.Unlock()
	for _, ln := range listeners {
		ln.Close()
	}
	n.reset(func(c *memConn) bool { return c.dialer == node || c.listener == node })
}

// Shut makes an address refuse new connections, as one that a firewall closed, until open is called; those that exist go on.
func (n *Network) Shut(addr string) (open func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ln := n.listeners[addr]
	delete(n.listeners, addr)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listeners[addr] = ln
	}
}

// Reset breaks the connections between two nodes.
func (n *Network) Reset(a, b raysys.NodeID) {
	n.reset(func(c *memConn) bool { return c.between(a, b) })
}

func (n *Network) reset(which func(*memConn) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if which(c) {
			for _, h := range []*pipe.Half{c.there, c.back} {
				h.Break(syscall.ECONNRESET)
			}
		}
	}
}

// Sever acts as a stateful firewall that has forgotten the connections between two nodes: their bytes are dropped for
// ever, without an error on either side; new connections work.
func (n *Network) Sever(a, b raysys.NodeID) {
	n.fault(func() {
		for c := range n.conns {
			if c.between(a, b) {
				c.severed = true
			}
		}
	})
}

// fault applies f and lets every connection and dial look again.
func (n *Network) fault(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for c := range n.conns {
		n.gate(c)
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// gate holds or frees a connection's directions. mu is held.
func (n *Network) gate(c *memConn) {
	stopped := c.severed || n.paused[c.dialer] || n.paused[c.listener]
	there, back := stopped || n.cut[way{c.dialer, c.listener}], stopped || n.cut[way{c.listener, c.dialer}]
	c.there.Hold(there)
	c.back.Hold(back)
}

func hostOf(at string) raysys.NodeID {
	for i := range at {
		if at[i] == ':' {
			return raysys.NodeID(at[:i])
		}
	}
	return raysys.NodeID(at)
}
