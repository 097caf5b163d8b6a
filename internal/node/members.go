package node

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/placement"
)

// clusterMembers implements registry.Members.
type clusterMembers struct{ c *Cluster }

func (m clusterMembers) Self() core.NodeKey                    { return m.c.Self() }
func (m clusterMembers) Leader(shard int) (core.NodeKey, bool) { return m.c.Leader(shard) }
func (m clusterMembers) Alive(k core.NodeKey) bool             { return m.c.Mesh.Alive(k) }
func (m clusterMembers) Suspended() error                      { return m.c.Suspended() }
func (m clusterMembers) Promised() bool                        { return m.c.Member.Promised() }

// Nodes implements registry.Members.
func (m clusterMembers) Nodes() ([]placement.Node, registry.Moment) { return m.c.Placer.Nodes() }

// Since implements registry.Members.
func (m clusterMembers) Since(at registry.Moment, reported func(core.NodeKey)) registry.Moment {
	return m.c.Placer.Since(at, reported)
}

// Reported implements registry.Members.
func (m clusterMembers) Reported(n *placement.Node) { m.c.Placer.Reported(n) }

// Connect implements registry.Members.
func (m clusterMembers) Connect(to core.NodeKey, done func(*mesh.Questions, error)) {
	refs.Connect(m.c.Mesh, to, func(p *refs.Session, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&p.Questions, nil)
	})
}
