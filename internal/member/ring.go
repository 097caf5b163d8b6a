package member

import (
	"cmp"
	"slices"

	"github.com/raysys/raysys"
)

// monitorsPerNode is how many watch over one node: three outvote one that is itself cut off, and the number of links and
// votes does not grow with the cluster (C17).
const monitorsPerNode = 3

// hash is the mix under ring and rendezvous: FNV-1a over the name, seeded, then MurmurHash3's finaliser, since FNV alone
// leaves names that differ in their last digit close together. Every node must get the same from it: ringSeed and shardSeed
// are its version, and another one is another seed (rule C12).
func hash(seed uint64, id raysys.NodeID) uint64 {
	h := uint64(0xcbf29ce484222325) ^ seed
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 0x100000001b3
	}
	return mix(h)
}

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

const (
	ringSeed  = 0x72696e672d763031  // "ring-v01"
	shardSeed = 0x73687264_2d763031 // "shrd-v01"
)

// ring orders the members: each is watched by the members that follow it. The order is by hash, so that the monitors
// of a node are not its neighbours of one host or rack.
func ring(ids []raysys.NodeID) []raysys.NodeID {
	return slices.SortedFunc(slices.Values(ids), func(a, b raysys.NodeID) int {
		return cmp.Or(cmp.Compare(hash(ringSeed, a), hash(ringSeed, b)), cmp.Compare(a, b))
	})
}

// successors returns the up to three that follow id on the ring, nil when id is not on it.
func successors(ring []raysys.NodeID, id raysys.NodeID) []raysys.NodeID { return beside(ring, id, 1) }

// predecessors returns the members that have id among their successors.
func predecessors(ring []raysys.NodeID, id raysys.NodeID) []raysys.NodeID {
	return beside(ring, id, -1)
}

// beside goes around the ring from id in steps of 1 or -1.
func beside(ring []raysys.NodeID, id raysys.NodeID, step int) []raysys.NodeID {
	at := slices.Index(ring, id)
	if at < 0 {
		return nil
	}
	n := min(monitorsPerNode, len(ring)-1)
	list := make([]raysys.NodeID, n)
	for i := range list {
		list[i] = ring[(at+len(ring)+step*(i+1))%len(ring)]
	}
	return list
}

// quorum is how many of n monitors have to agree, the accuser included: a majority of three, all when they are fewer.
func quorum(n int) int {
	if n < monitorsPerNode {
		return n
	}
	return n/2 + 1
}

func weight(id raysys.NodeID, shard int) uint64 {
	return hash(mix(shardSeed+uint64(shard)), id)
}

// winner is the rendezvous winner: a join moves only the shards that the new node wins, a leave only those that it had.
func winner(ids []raysys.NodeID, shard int) raysys.NodeID {
	var best raysys.NodeID
	var most uint64
	for _, id := range ids {
		if w := weight(id, shard); best == "" || w > most || w == most && id < best {
			best, most = id, w
		}
	}
	return best
}
