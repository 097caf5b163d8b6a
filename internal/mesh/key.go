package mesh

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/wire"
)

// Key is one incarnation of a node.
type Key struct {
	Node        raysys.NodeID
	Incarnation uint64
}

// KeyOf is the key of a member.
func KeyOf(m member.Node) Key { return Key{Node: m.ID, Incarnation: m.Incarnation} }

// String implements fmt.Stringer.
func (k Key) String() string { return fmt.Sprintf("%s (incarnation %d)", k.Node, k.Incarnation) }

// AppendKey appends k to a frame, ReadKey reads it.
func AppendKey(dst []byte, k Key) []byte {
	return wire.AppendUvarint(wire.AppendBytes(dst, k.Node), k.Incarnation)
}

// ReadKey is described with AppendKey.
func ReadKey(r *wire.Reader) Key {
	return Key{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}
}
