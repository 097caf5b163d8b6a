package mesh

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
)

// KeyOf is the key of a member.
func KeyOf(m member.Node) core.NodeKey { return core.NodeKey{Node: m.ID, Incarnation: m.Incarnation} }
