package member

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/store"
)

// A node that others cannot talk to must not lead shards or have grains: shards and grains that are placed on it are
// unreachable for all others until it is evicted, and again when it comes back. So an eligible node joins as one that
// is Joining, and becomes a host when a majority of the hosts has a session with it; where there are none, a majority
// of the eligible nodes, itself included. It says so in its own record, so that all members have the same hosts and
// with them the same rendezvous winners.
//
// A session is mutual: each side has checked the other's certificate and read its answer. So the node's own count is the
// hosts' word. A host stays one for this incarnation: a
// pair that breaks later is relayed, mended or evicted as pairs.go and vote.go say.

// hostsKey is written by each node that becomes a host, on condition that no other became one since it counted: of
// two that start at the same time and see no other member, the second one counts again, and finds the first.
const hostsKey = "hosts"

// electors are the nodes whose sessions make a node a host.
func electors(nodes []Node, self uint64) []Node {
	var hosts, eligible []Node
	for _, n := range nodes {
		if n.Hosts() && n.Incarnation != self {
			hosts = append(hosts, n)
		}
		if n.Eligible() {
			eligible = append(eligible, n)
		}
	}
	if len(hosts) > 0 {
		return hosts
	}
	return eligible
}

func hasHosts(nodes []Node) bool {
	for _, n := range nodes {
		if n.Hosts() {
			return true
		}
	}
	return false
}

// Candidacy is how far a node is on its way to be a host.
type Candidacy struct {
	Linked, Needed int    // sessions that it has, and that it needs
	Missing        []Node // the hosts without a session, or the eligible nodes where there is no host
	hosts          bool   // they are hosts
}

func (c Candidacy) String() string {
	what := "hosts"
	if !c.hosts {
		what = "eligible nodes, itself included"
	}
	return fmt.Sprintf("%d of %d %s have a session with it, %d must", c.Linked, c.Linked+len(c.Missing), what, c.Needed)
}

func (m *Member) candidacy(nodes []Node) Candidacy {
	all := electors(nodes, m.incarnation)
	c := Candidacy{Needed: len(all)/2 + 1, hosts: hasHosts(all)}
	for _, n := range all {
		if n.Incarnation == m.incarnation || m.cfg.Prober == nil || m.cfg.Prober.Linked(n.ID, n.Incarnation) {
			c.Linked++
		} else {
			c.Missing = append(c.Missing, n)
		}
	}
	return c
}

// Candidacy says what keeps this node from being a host; false when it is one, or never will be.
func (m *Member) Candidacy() (Candidacy, bool) {
	v := m.View()
	if self, ok := v.Node(m.cfg.Self.ID); !ok || !self.Joining || !self.Eligible() {
		return Candidacy{}, false
	}
	return m.candidacy(v.nodes), true
}

// Linked is to be called when a session with another node began.
func (m *Member) Linked() { signal(m.linked) }

// seekHosting is the goroutine of a node that is no host yet.
func (m *Member) seekHosting() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		v := m.View()
		self, ok := v.Node(m.cfg.Self.ID)
		if ok && !self.Joining {
			return
		}
		if c := m.candidacy(v.nodes); ok && c.Linked >= c.Needed && m.State() == Active && m.tryHosting(m.ctx) {
			m.event(BecameHost, self, nil)
			return
		}
		a.set(m.cfg.TTL / 20)
		select {
		case <-a.C:
		case <-m.linked:
		case <-v.Changed():
		case <-m.ctx.Done():
			return
		}
	}
}

// tryHosting counts once more on what the store says now, and writes that this node is a host.
func (m *Member) tryHosting(ctx context.Context) bool {
	if !m.cfg.Self.Eligible() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.TTL/4)
	defer cancel()
	last, err := m.cfg.KV.Txn(ctx, []store.Op{store.Read(hostsKey)})
	if err != nil {
		return false // the renewal tells of a store that is away
	}
	nodes, err := m.listNodes(ctx)
	if err != nil {
		return false
	}
	if c := m.candidacy(nodes); c.Linked < c.Needed {
		return false
	}
	return m.write(ctx, func(r *record) { r.Joining = false }, store.CheckAndSet(hostsKey, []byte(m.cfg.Self.ID), last[0].Modify)) == nil
}

// juniorOf is the one of two members that goes where one has to.
func juniorOf(nodes map[uint64]Node, a, b uint64) uint64 {
	if nodes[a].before(nodes[b]) {
		return b
	}
	return a
}
