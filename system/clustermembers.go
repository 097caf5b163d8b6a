package system

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/placement"
)

// clusterMembers implements registry.Members.
type clusterMembers struct{ c *cluster }

func (m clusterMembers) Self() core.NodeKey                    { return m.c.self() }
func (m clusterMembers) Leader(shard int) (core.NodeKey, bool) { return m.c.leader(shard) }
func (m clusterMembers) Alive(k core.NodeKey) bool             { return m.c.alive(k) }
func (m clusterMembers) Suspended() error                      { return m.c.suspended() }

// Nodes implements registry.Members.
func (m clusterMembers) Nodes() ([]placement.Node, registry.Moment) { return m.c.nodes() }

// Since implements registry.Members.
func (m clusterMembers) Since(at registry.Moment, reported func(core.NodeKey)) registry.Moment {
	m.c.mu.Lock()
	keys := m.c.reports.since(at.Reports)
	now := registry.Moment{Members: m.c.members, Reports: m.c.reports.last}
	m.c.mu.Unlock()
	for _, k := range keys {
		reported(k)
	}
	return now
}

// Reported implements registry.Members.
func (m clusterMembers) Reported(n *placement.Node) {
	m.c.mu.Lock()
	l, known := m.c.loads[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}]
	m.c.mu.Unlock()
	if !known {
		l.Free = n.Total.CPU
	}
	enterLoad(n, &l, 0)
}

// Connect implements registry.Members.
func (m clusterMembers) Connect(to core.NodeKey, done func(*mesh.Questions, error)) {
	m.c.connect(to, func(p *refs.Session, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&p.Questions, nil)
	})
}
