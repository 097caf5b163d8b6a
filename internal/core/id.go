package core

import (
	"encoding/binary"
	"encoding/hex"
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
