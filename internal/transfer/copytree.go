package transfer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// copyTree lists the receivers to which this node gives or gave a large object. It sends further receivers to them,
// so that the copies make a tree. The engine's mu guards all of it.
type copyTree struct {
	object    *objectstore.Object
	receivers map[core.NodeKey]*receiver
}

// receiver has a copy, or is about to.
type receiver struct {
	tree    *copyTree
	key     core.NodeKey
	streams int  // that give it the object now
	whole   bool // it has all of it
	sent    int  // how many others were sent to it
}

// maxNamed is how many nodes are named to a receiver: the one it should go to, and some for when that one fails.
const maxNamed = 4

const minForget = 64

// HostID names what processes must have in common to map each other's memory: the running system, the user and the
// namespace in which processes have their numbers. Empty where it cannot be told.
func HostID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", bytes.TrimSpace(boot), os.Getuid(), space)
}

type shared = objectstore.Shared

func appendShared(dst []byte, s shared) []byte {
	for _, n := range []uint64{uint64(s.PID), uint64(s.FD), s.Device, s.Inode, uint64(s.Capacity)} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Sums)))
	for _, sum := range s.Sums {
		dst = binary.LittleEndian.AppendUint32(dst, sum)
	}
	return dst
}

func readShared(b []byte) (shared, error) {
	r := wire.NewReader(b)
	s := shared{PID: int(r.Uint32()), FD: int(r.Uint32()), Device: r.Uvarint(), Inode: r.Uvarint(), Capacity: int64(r.Uvarint())}
	s.Sums = make([]uint32, r.Count(4))
	for i := range s.Sums {
		s.Sums[i] = readSum(&r)
	}
	if s.Capacity < 0 || s.PID < 0 || s.FD < 0 {
		return s, wire.ErrCorrupt
	}
	return s, r.Err()
}
