package ppo

import (
	"encoding/binary"
	"math/rand/v2"
)

// Stream returns the generator of one piece of work: rollout k of an iteration
// of the run with this seed. It depends on nothing else, so a rollout that runs
// again on another node draws the same numbers. ChaCha8, because its streams are
// independent for keys that differ in a single bit, as these do.
func Stream(seed uint64, iteration, k int) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(iteration))
	binary.LittleEndian.PutUint64(key[16:], uint64(k))
	return rand.New(rand.NewChaCha8(key))
}

// The learner's own draws lie at negative k, where no rollout is.
const (
	streamWeights = -1 - iota
	streamShuffle
)
