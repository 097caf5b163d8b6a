package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
)

// The mesh answers what the membership asks of the connections: member.Prober and member.Ballots.

// Silence implements member.Prober.
func (m *Mesh) Silence(node raysys.NodeID) (time.Duration, bool) {
	m.mu.Lock()
	p := m.peers[node]
	last := m.heard[node]
	m.mu.Unlock()
	if p != nil {
		return p.link.Silence(), true
	}
	if last.IsZero() {
		return 0, false
	}
	return time.Since(last), true
}

// Relayed implements member.Prober.
func (m *Mesh) Relayed(node raysys.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[node]
	return p != nil && p.link.Relayed()
}

// Linked implements member.Prober.
func (m *Mesh) Linked(node raysys.NodeID, incarnation uint64) bool {
	p := m.Peer(core.NodeKey{Node: node, Incarnation: incarnation})
	return p != nil && p.link.Silence() < m.cfg.Times.Silent
}

// Redial implements member.Prober.
func (m *Mesh) Redial(ctx context.Context, n member.Node) error {
	name := n.ID
	if name == m.Self().Node {
		// The victim is a former incarnation of this node, or another process with the same name, which says so in
		// every handshake. A link does not dial itself.
		name += "?"
	}
	_, err := m.link.Connect(ctx, name, n.Address)
	if name != n.ID && errors.Is(err, link.CodeSelf) {
		return nil
	}
	if errors.Is(err, link.ErrRefused) {
		return fmt.Errorf("%w: %w", member.ErrNotListening, err)
	}
	return err
}

// Ask implements member.Ballots.
func (m *Mesh) Ask(ctx context.Context, monitor, victim raysys.NodeID, incarnation uint64) (bool, error) {
	n, ok := m.member.View().Node(monitor)
	if !ok {
		return false, fmt.Errorf("%w: %s", raysys.ErrNodeDead, monitor)
	}
	p := m.Peer(core.NodeKey{Node: n.ID, Incarnation: n.Incarnation})
	if p == nil {
		return false, fmt.Errorf("%w: monitor %s", raysys.ErrUnreachable, monitor)
	}
	return m.question(ctx, p, asksVote, core.NodeKey{Node: victim, Incarnation: incarnation})
}
