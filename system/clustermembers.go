package system

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/placement"
)

// clusterMembers implements registry.Members.
type clusterMembers struct{ c *cluster }

func (m clusterMembers) Self() core.NodeKey                    { return m.c.self() }
func (m clusterMembers) Leader(shard int) (core.NodeKey, bool) { return m.c.leader(shard) }
func (m clusterMembers) Alive(k core.NodeKey) bool             { return m.c.alive(k) }
func (m clusterMembers) Suspended() error                      { return m.c.suspended() }
func (m clusterMembers) Nodes() ([]placement.Node, uint64)     { return m.c.nodes() }

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
