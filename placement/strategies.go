package placement

import (
	"math"
	"math/bits"
	"time"

	"github.com/raysys/raysys"
)

// hashed is rendezvous hashing (Thaler, Ravishankar 1998): each node gets a score from its name and the key, the highest
// wins. When a node goes only its keys move, and when it comes back, under any incarnation, the same ones return. Where
// sizes differ the scores are weighted by them (w/-ln u: Schindelhauer, Schomaker 2005). 200,000 keys come out within 1.04 of each
// other over 16 equal nodes; the fewer the keys per node, the wider: it does not look at counts.
func (v *View) hashed(key string, among *set) int {
	h, hashes := shifted(hashString(key)), v.hashes
	best, top, least := among.at(0), -1.0, uint64(0) // a draw below least does not win
	for w, word := range among.words {
		for i := w << 6; word != 0; i, word = i+1, word>>1 {
			x := mixed(h ^ hashes[i])
			if x < least || word&1 == 0 {
				continue
			}
			if v.upTo == nil {
				best, least = i, x
				continue
			}
			u := (float64(x>>11) + 0.5) / (1 << 53) // in (0, 1)
			if s := v.nodes[i].size() / -math.Log(u); s > top {
				best, top, least = i, s, v.wins(s)
			}
		}
	}
	return best
}

// wins is the draw below which no node has a score above top: since -ln u > 1-u, a score is less than the largest size / (1-u). What is
// taken off is for what is rounded. A logarithm for each node would take most of the time.
func (v *View) wins(top float64) uint64 {
	if u := 1 - v.largest/top - 1e-12; u > 0 {
		return uint64(u * (1 << 64))
	}
	return 0
}

// spread is the node with the fewest grains, or tasks, of all; the seed decides among equals.
func (v *View) spread(r *Request, among *set) int {
	v.recount(among)
	h, hashes, counts := shifted(r.Seed), v.hashes, v.counts[r.Kind]
	best, least, top := among.at(0), math.MaxInt, uint64(0)
	for w, word := range among.words {
		if word == 0 {
			continue
		}
		from := w << 6
		counts := counts[from:min(from+64, len(counts))]
		for k, hash := range hashes[from : from+len(counts)] {
			n, x := counts[k], mixed(h^hash)
			if n > least || n == least && x <= top || word>>(k&63)&1 == 0 {
				continue
			}
			best, least, top = from+k, n, x
		}
	}
	return best
}

// recounted is how many nodes' counts are read in turn for a decision of Spread.
const recounted = 2

// recount brings the counts of some nodes up to date, since to read those of thousands takes milliseconds: all in turn, a few for each decision. That
// of a node which is chosen is read, too (place). So a node whose tasks have ended and that did not report it waits for its turn.
func (v *View) recount(among *set) {
	switch {
	case v.Refresh == nil:
	case among.n <= maxLooked:
		among.all(func(i int) { v.refresh(i) })
	default:
		for range recounted {
			v.refresh(among.at(v.turn % among.n))
			v.turn++
		}
	}
}

// asks is the node that asks, -1 where it is not among the nodes.
func (v *View) asks(r *Request) int {
	if r.From == "" {
		return v.local
	}
	if i, ok := v.index[r.From]; ok {
		return i
	}
	return -1
}

// stay is the node that asks where it may be taken and is not busier than the better of two others: the way to another
// node costs time too, so in doubt work stays.
func (v *View) stay(r *Request, other int) int {
	own := v.asks(r)
	if own < 0 || v.exclude(own, r) != fit || v.reserve(own, r.Avoid) > v.reserve(other, r.Avoid) {
		return other
	}
	v.refresh(own, other)
	slack := grainSlack
	if r.Kind == Task {
		slack = taskSlack
	}
	x, y := v.nodes[own].Wait(r.Needs), v.nodes[other].Wait(r.Needs)
	if x > y+y/8+slack {
		return other
	}
	return own
}

// builtin lists the strategies that need no registration.
var builtin = [...]raysys.Strategy{raysys.Balanced, raysys.PreferLocal, raysys.ByHash, raysys.Spread}

// tries is how many nodes are drawn before the whole view is read. Where half of the nodes fit, eight find two of them
// in 96 of 100 cases.
const tries = 8

// pair is the two nodes between which balanced decides; b is -1 where there is but one.
type pair struct{ a, b int }

// A wait must be longer than another by slack to count, and by an eighth: the estimate is no better, and with a
// difference that means nothing the grains would not be even. Grains do not stand in the task queue, they only share
// its CPUs, so for them a queue counts once it is a backlog.
const (
	taskSlack  = time.Millisecond
	grainSlack = 100 * time.Millisecond
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
