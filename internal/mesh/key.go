package mesh

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/wire"
)

// KeyOf is the key of a member.
func KeyOf(m member.Node) core.NodeKey { return core.NodeKey{Node: m.ID, Incarnation: m.Incarnation} }

// AppendKey appends k to a frame, ReadKey reads it.
func AppendKey(dst []byte, k core.NodeKey) []byte {
	return wire.AppendUvarint(wire.AppendBytes(dst, k.Node), k.Incarnation)
}

// ReadKey is described with AppendKey.
func ReadKey(r *wire.Reader) core.NodeKey {
	return core.NodeKey{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}
}
