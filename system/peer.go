package system

import (
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
)

// peer is one incarnation of another node while the connection to it holds, with the references between the two. It
// implements wire.Peer.
type peer struct {
	*refs.Session
	c *cluster
}

// of returns what this node keeps for a connection.
func of(p *mesh.Peer) *peer { return p.Session.(*peer) }
