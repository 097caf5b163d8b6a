package core

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TaskID names one submission: 128 bits derived from the turn that submitted and the position of the submission in
// it, so that a re-run of the same program under the same job derives the same ids. Tasks, grain calls and Put
// objects all draw from the one sequence of their turn.
type TaskID struct{ Hi, Lo uint64 }

// JobID names one run of a driver. It is random unless the seed is fixed (Config.Seed or RAYSYS_SEED).
type JobID TaskID

// NodeID names a node of the cluster.
type NodeID string

// String returns 32 hexadecimal digits.
func (id TaskID) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], id.Hi)
	binary.BigEndian.PutUint64(b[8:], id.Lo)
	return hex.EncodeToString(b[:])
}

// String returns 32 hexadecimal digits.
func (id JobID) String() string { return TaskID(id).String() }

// IsZero reports whether id is unset.
func (id TaskID) IsZero() bool { return id == TaskID{} }

const (
	golden    = 0x9e3779b97f4a7c15 // 2^64 / phi, odd: steps by it visit every residue
	childKey  = 0x8ebc6af09c88c6e3
	branchKey = 0x589965cc75374cc3
	seedKey   = 0x1d8e4e27c47d124f
	redrawKey = 0x9e3779b97f4a7c15
	runKey    = 0x2c1b3c6d9f4a7e15
	ofTurnKey = 0x61c8864680b583eb
)

// mix64 is the finaliser of MurmurHash3 (public domain): a bijection in which every input bit reaches every output bit.
func mix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// derive is the keyed mix behind all ids (rule C1). For one parent it is injective in n by construction, since every
// step on the high half is a bijection of n; across parents it spreads over 128 bits. It is no cryptographic hash:
// ids are names, not secrets, and one is derived per task.
func (id TaskID) derive(key, n uint64) TaskID {
	hi := mix64(id.Hi + n*golden ^ key)
	return TaskID{Hi: hi, Lo: mix64(id.Lo + hi ^ key<<1)}
}

// Child returns the id of the n-th submission of the turn named id.
func (id TaskID) Child(n uint64) TaskID { return id.derive(childKey, n) }

// SeededJob returns the job id that a fixed seed stands for, so that a whole run repeats.
func SeededJob(seed uint64) JobID {
	return JobID(TaskID{Hi: mix64(seed + seedKey), Lo: mix64(seed ^ golden)})
}

// NodeKey is one incarnation of a node: its life between a start and its end. A node that starts anew under the same
// name has another. The zero NodeKey is no node.
type NodeKey struct {
	Node        NodeID
	Incarnation uint64
}

func (k NodeKey) String() string { return fmt.Sprintf("%s (incarnation %d)", k.Node, k.Incarnation) }

// Prefix is how the digits of an id begin. It matches without making the digits, since a question is asked of every task that
// waits.
type Prefix struct{ digits, mask TaskID }

// PrefixOf reads 1 to 32 hexadecimal digits; false for what no id begins with.
func PrefixOf(digits string) (p Prefix, ok bool) {
	n := len(digits)
	if n == 0 || n > 32 || digits != strings.ToLower(digits) {
		return p, false
	}
	read := func(s string) (id TaskID, ok bool) {
		b, err := hex.DecodeString(s + strings.Repeat("0", 32-n))
		if err != nil {
			return id, false
		}
		return TaskID{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
	}
	if p.digits, ok = read(digits); !ok {
		return Prefix{}, false
	}
	p.mask, _ = read(strings.Repeat("f", n))
	return p, true
}

// Of reports whether the digits of id begin so.
func (p Prefix) Of(id TaskID) bool {
	return id.Hi&p.mask.Hi == p.digits.Hi && id.Lo&p.mask.Lo == p.digits.Lo
}

// Digits is the first id that begins so: the whole id, where all its digits are given.
func (p Prefix) Digits() TaskID { return p.digits }

// Short says, a line each, of which resources less than want asks for is free. devices are those that would do for it now, and
// known those that would when idle.
func Short(want, free, total Resources, devices, known int) (list []string) {
	add := func(name string, want, free, total float64) {
		if want > free+1e-6 {
			list = append(list, fmt.Sprintf("%s: %g asked for, %.4g of %g free", name, want, max(free, 0), total))
		}
	}
	add("CPU", want.CPU, free.CPU, total.CPU)
	if asked := max(int(want.GPU), 1); want.GPU > 0 && devices < asked {
		which := Resources{GPU: want.GPU, GPUMemory: want.GPUMemory, GPUModel: want.GPUModel}
		list = append(list, fmt.Sprintf("%v: %d asked for, %d of %d such devices free", which, asked, devices, known))
	}
	if want.Memory > free.Memory {
		list = append(list, fmt.Sprintf("memory: %s asked for, %s of %s free", Bytes(want.Memory), Bytes(max(free.Memory, 0)), Bytes(total.Memory)))
	}
	for _, k := range slices.Sorted(maps.Keys(want.Custom)) {
		add(k, want.Custom[k], free.Custom[k], total.Custom[k])
	}
	return list
}
