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
func (m clusterMembers) Nodes() ([]placement.Node, registry.Moment) { return m.c.placer.Nodes() }

// Since implements registry.Members.
func (m clusterMembers) Since(at registry.Moment, reported func(core.NodeKey)) registry.Moment {
	return m.c.placer.Since(at, reported)
}

// Reported implements registry.Members.
func (m clusterMembers) Reported(n *placement.Node) { m.c.placer.Reported(n) }

// Connect implements registry.Members.
func (m clusterMembers) Connect(to core.NodeKey, done func(*mesh.Questions, error)) {
	refs.Connect(m.c.mesh, to, func(p *refs.Session, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&p.Questions, nil)
	})
}
