package placement

import (
	"math/bits"
	"slices"
)

// draw is a stream of random numbers made of one seed: SplitMix64 (Steele, Lea, Flood 2014). It costs nothing to start,
// which math/rand's generators do not.
type draw uint64

const golden = 0x9e3779b97f4a7c15 // 2^64 / phi, odd

func (d *draw) next() uint64 {
	*d += golden
	return mix64(uint64(*d))
}

// below returns a number in [0, n). The bias of at most n/2^64 is of no account.
func (d *draw) below(n uint64) uint64 {
	hi, _ := bits.Mul64(d.next(), n)
	return hi
}

// node draws a node with odds by size.
func (v *View) node(d *draw) int {
	if v.upTo == nil {
		return int(d.below(uint64(len(v.nodes))))
	}
	ends := v.upTo[1:]
	i, found := slices.BinarySearch(ends, d.below(ends[len(ends)-1]))
	if found {
		i++ // ends[i] is the first value beyond node i
	}
	return i
}

// mix64 is the finaliser of MurmurHash3 in Stafford's variant 13: a bijection in which each input bit reaches each
// output bit.
func mix64(x uint64) uint64 { return mixed(shifted(x)) }

// shifted is the first step of mix64. Of a^b it is shifted(a) ^ shifted(b), so that of what is mixed with many others it is taken once.
func shifted(x uint64) uint64 { return x ^ x>>30 }

// mixed is the rest of mix64.
func mixed(x uint64) uint64 {
	x *= 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashString is FNV-1a with a finaliser: FNV alone leaves the last bytes of short keys in few of the high bits, and
// keys often differ in their last byte alone.
func hashString(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix64(h)
}
