package objects

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// seed separates the ids of objects from all others.
var seed = maphash.MakeSeed()

// id names the object that a future of this node holds. It is derived from the id of the submission and from this incarnation, because a driver with a
// fixed seed submits under the same ids again.
func (o *Objects) id(c *core.Future) raysys.TaskID {
	id := c.ID()
	if id.IsZero() {
		// A Ready value has none. Its place in memory is its own while it is there, and with it this id.
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(reflect.ValueOf(c).Pointer()))
		id = raysys.TaskID{Hi: maphash.Bytes(seed, b[:]), Lo: 1}
	}
	return objectID(id, o.self())
}

// objectID names the object that a node made of a submission's value.
func objectID(id raysys.TaskID, owner core.NodeKey) raysys.TaskID {
	h := fnv1a(string(owner.Node)) ^ owner.Incarnation*0x9e3779b97f4a7c15
	return raysys.TaskID{Hi: id.Hi ^ h, Lo: id.Lo ^ h<<32 ^ h>>32}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
