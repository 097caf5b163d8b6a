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

// Prober answers what the membership asks of the connections: it is a member.Prober and member.Ballots.
type Prober struct{ mesh *Mesh }

// voting is what the membership wants of the connections of other nodes, those that are to come included. The mesh's
// mu guards it.
type voting struct {
	withheld map[core.NodeKey]bool // their pings stay without an answer
	brisk    map[core.NodeKey]bool // they are pinged briskly
}

// apply has a connection do as the membership wants; the mesh's mu is held.
func (v *voting) apply(p *Peer) {
	p.link.Withhold(p.gone || v.withheld[p.key])
	p.link.Brisk(v.brisk[p.key])
}

// forget drops an incarnation that is no member any more and has no connection; the mesh's mu is held.
func (v *voting) forget(m *Mesh, k core.NodeKey) {
	if p := m.peers[k.Node]; (p == nil || p.key != k) && !m.Alive(k) {
		delete(v.withheld, k)
	}
}

// Silence implements member.Prober.
func (b Prober) Silence(node raysys.NodeID) (time.Duration, bool) {
	m := b.mesh
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

// Answered implements member.Prober.
func (b Prober) Answered(node raysys.NodeID, incarnation uint64) (time.Duration, bool) {
	if p := b.mesh.Peer(core.NodeKey{Node: node, Incarnation: incarnation}); p != nil {
		return p.link.Answered()
	}
	return 0, false
}

// Withhold implements member.Prober.
func (b Prober) Withhold(node raysys.NodeID, incarnation uint64, on bool) {
	m, k := b.mesh, core.NodeKey{Node: node, Incarnation: incarnation}
	m.mu.Lock()
	defer m.mu.Unlock()
	if on {
		m.voting.withheld[k] = true
	} else {
		delete(m.voting.withheld, k)
	}
	if p := m.peers[node]; p != nil {
		m.voting.apply(p)
	}
}

// PingBriskly implements member.Prober.
func (b Prober) PingBriskly(nodes []member.Node) {
	m := b.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.voting.brisk)
	for _, n := range nodes {
		m.voting.brisk[KeyOf(n)] = true
	}
	for _, p := range m.peers {
		m.voting.apply(p)
	}
}

// Relayed implements member.Prober.
func (b Prober) Relayed(node raysys.NodeID) bool {
	m := b.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[node]
	return p != nil && p.link.Relayed()
}

// Linked implements member.Prober.
func (b Prober) Linked(node raysys.NodeID, incarnation uint64) bool {
	p := b.mesh.Peer(core.NodeKey{Node: node, Incarnation: incarnation})
	return p != nil && p.link.Silence() < b.mesh.cfg.Times.Silent
}

// Redial implements member.Prober.
func (b Prober) Redial(ctx context.Context, n member.Node) error {
	m, name := b.mesh, n.ID
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
func (b Prober) Ask(ctx context.Context, monitor, victim member.Node, guard uint64) (bool, error) {
	p := b.mesh.Peer(KeyOf(monitor))
	if p == nil {
		return false, fmt.Errorf("%w: monitor %s", raysys.ErrUnreachable, monitor.ID)
	}
	what := asksVote
	if guard != 0 {
		what = asksBallot
	}
	return b.mesh.question(ctx, p, what, KeyOf(victim), guard)
}
