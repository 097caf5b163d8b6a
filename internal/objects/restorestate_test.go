package objects

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/wire"
)

// TestWrittenReferences: the references of a State are read in every form in which they were ever written: by value, as an
// object, and as the object of a recorded task.
func TestWrittenReferences(t *testing.T) {
	o := alone(t)
	owner := core.NodeKey{Node: "n1", Incarnation: 7}
	object := func(dst []byte) []byte {
		dst = wire.AppendID(wire.AppendID(dst, raysys.TaskID{Hi: 1, Lo: 2}), raysys.TaskID{Hi: 3, Lo: 4})
		return wire.AppendUvarint(wire.AppendUvarint(wire.AppendNode(dst, owner), 1<<20), 0)
	}
	small := wire.AppendUvarint(wire.AppendBytes([]byte{writtenSmall}, "value"), 0)
	task := wire.AppendID(wire.AppendUvarint([]byte{writtenTask}, 9), raysys.TaskID{Hi: 3, Lo: 4})
	for name, now := range map[string][]byte{"small": small, "object": object([]byte{writtenObject}), "task": object(task)} {
		stored := golden.Hex(t, "v1/ref-"+name+".hex", now)
		refs, err := o.Restore(append(stored, stored...))
		if err != nil || len(refs) != 2 {
			t.Errorf("%s: %d references, %v; want 2", name, len(refs), err)
			continue
		}
		if string(stored) != string(now) {
			t.Errorf("%s is written as %x, and was as %x", name, now, stored)
		}
		if id := core.SourceOf(refs[0]).ID(); name != "small" && id != (raysys.TaskID{Hi: 3, Lo: 4}) {
			t.Errorf("%s: the task is %s", name, id)
		}
		for cut := 1; cut < len(stored); cut++ {
			if _, err := o.Restore(stored[:cut]); err == nil {
				t.Errorf("%s, cut after %d bytes, is read", name, cut)
			}
		}
	}
}
