package wire_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Two types of stamps have the same bytes and do not mix; what is read is what was written, and nothing is left over.
func TestStampsAndNodesComeBack(t *testing.T) {
	type token struct{ Epoch, Seq uint64 }
	type version struct{ Epoch, Seq uint64 }
	rapid.Check(t, func(t *rapid.T) {
		s := token{rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "seq")}
		k := core.NodeKey{Node: core.NodeID(rapid.String().Draw(t, "node")), Incarnation: rapid.Uint64().Draw(t, "incarnation")}
		frame := wire.AppendNode(wire.AppendStamp(wire.AppendStamp(nil, s), version(s)), k)
		r := wire.NewReader(frame)
		got, other, node := wire.ReadStamp[token](&r), wire.ReadStamp[version](&r), wire.ReadNode(&r)
		if got != s || other != version(s) || node != k || r.Err() != nil || r.Len() != 0 {
			t.Fatalf("read %v, %v, %v with %d bytes left (%v), wrote %v, %v", got, other, node, r.Len(), r.Err(), s, k)
		}
	})
}
