package wire

import (
	"github.com/raysys/raysys/internal/core"
)

// A stamp is a leader's epoch and a number in it: graindir.Token, graindir.ETag and shardlog.Version. They are encoded
// alike and stay types of their own, because one in the place of another breaks what it guards (rule C19).

// AppendStamp appends s, ReadStamp reads it.
func AppendStamp[S ~struct{ Epoch, Seq uint64 }](dst []byte, s S) []byte {
	v := struct{ Epoch, Seq uint64 }(s)
	return AppendUvarint(AppendUvarint(dst, v.Epoch), v.Seq)
}

// ReadStamp is described with AppendStamp.
func ReadStamp[S ~struct{ Epoch, Seq uint64 }](r *Reader) S {
	epoch := r.Uvarint()
	return S(struct{ Epoch, Seq uint64 }{epoch, r.Uvarint()})
}

// AppendNode appends the incarnation of a node, ReadNode reads it.
func AppendNode(dst []byte, k core.NodeKey) []byte {
	return AppendUvarint(AppendBytes(dst, k.Node), k.Incarnation)
}

// ReadNode is described with AppendNode.
func ReadNode(r *Reader) core.NodeKey {
	return core.NodeKey{Node: core.NodeID(r.String()), Incarnation: r.Uvarint()}
}
