package shardlog

// Slots is how many slots keys hash to. It is fixed for ever: a [Layout] maps slots to shards, so that the number of shards
// can change while a key keeps its slot (C12).
const Slots = 4096

// SlotFunction names the function below in a cluster's [Layout]. Another function would get another name.
const SlotFunction = "fnv1a-fmix64/1"

// Slot returns the slot of a key, <kind>/<key> for a grain. The seed is the cluster's.
func Slot(seed uint64, key string) int {
	const prime = 1099511628211
	h := 14695981039346656037 ^ fmix64(seed)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return int(fmix64(h) >> 52)
}

// fmix64 is the finalizer of MurmurHash3: FNV alone leaves the upper bits of short keys poorly mixed.
func fmix64(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
