package transfer

import (
	"encoding/binary"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendVersion(dst []byte, v objectstore.Version) []byte {
	dst = wire.AppendID(dst, v.ID)
	dst = binary.AppendUvarint(dst, uint64(v.Attempt))
	dst = binary.AppendUvarint(dst, uint64(v.Size))
	return binary.LittleEndian.AppendUint64(dst, v.Nonce)
}

func readVersion(r *wire.Reader) objectstore.Version {
	return objectstore.Version{ID: r.ID(), Attempt: r.Uint32(), Size: int64(r.Uvarint()), Nonce: r.Uint64()}
}

func readSum(r *wire.Reader) uint32 {
	return uint32(r.Byte()) | uint32(r.Byte())<<8 | uint32(r.Byte())<<16 | uint32(r.Byte())<<24
}

func appendKey(dst []byte, k core.NodeKey) []byte {
	return binary.AppendUvarint(wire.AppendBytes(dst, k.Node), k.Incarnation)
}

func readKey(r *wire.Reader) core.NodeKey {
	return core.NodeKey{Node: raysys.NodeID(readText(r)), Incarnation: r.Uvarint()}
}

func appendKeys(dst []byte, keys []core.NodeKey) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, k := range keys {
		dst = appendKey(dst, k)
	}
	return dst
}

// readCount reads how many entries of a list of nodes follow. More than the limit is as wrong as a list that is cut off.
func readCount(r *wire.Reader) int {
	n := r.Count(2)
	if n > maxNodes {
		*r = wire.NewReader(nil)
		r.Byte()
		return 0
	}
	return n
}

func readText(r *wire.Reader) string {
	b := r.Bytes()
	if len(b) > maxText {
		*r = wire.NewReader(nil)
		r.Byte()
		return ""
	}
	return string(b)
}

func cut(s string) string {
	if len(s) > maxText {
		return s[:maxText]
	}
	return s
}
