package tally

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// Bucket i of the run times is those below limit(i), and not below limit(i-1). The first has what takes less than 64 ns. From there on
// eight buckets double the time, so a quantile is wrong by an eighth at most. The last has what takes 9 hours and more.
const (
	subBits    = 3
	leastBits  = 6 // 64 ns
	octaves    = 39
	numBuckets = 1 + octaves<<subBits
)

// bucketOf is the bucket of a time in nanoseconds.
func bucketOf(ns int64) int {
	if ns < 1<<leastBits {
		return 0
	}
	n := bits.Len64(uint64(ns)) - 1 // the highest bit
	sub := int(ns>>(n-subBits)) & (1<<subBits - 1)
	return min(1+(n-leastBits)<<subBits+sub, numBuckets-1)
}

// limit is the time in nanoseconds below which bucket i lies.
func limit(i int) int64 {
	n, sub := leastBits+i>>subBits, int64(i&(1<<subBits-1))
	return 1<<n + sub<<(n-subBits)
}

// histogram counts run times. It has 2.5 KiB.
type histogram struct {
	sum     atomic.Int64
	buckets [numBuckets]atomic.Uint64
}

// add counts n runs of so many nanoseconds each.
func (h *histogram) add(ns int64, n uint64) {
	h.buckets[bucketOf(ns)].Add(n)
	h.sum.Add(ns * int64(n))
}

// times is what has been counted so far.
func (h *histogram) times() (t Times) {
	t.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		if n := h.buckets[i].Load(); n > 0 {
			t.Buckets = append(t.Buckets, Bucket{time.Duration(limit(i)), n})
		}
	}
	return t
}

// Times are how long runs took. Those of several nodes can be added up.
type Times struct {
	Sum     time.Duration `json:"sum"`
	Buckets []Bucket      `json:"buckets,omitempty"` // that are not empty, the shortest first
}

// Bucket is N runs that took less than Below, and not less than seven eighths of that.
type Bucket struct {
	Below time.Duration `json:"below"`
	N     uint64        `json:"n"`
}

// Count is how many runs were measured.
func (t Times) Count() (n uint64) {
	for _, b := range t.Buckets {
		n += b.N
	}
	return n
}

// Quantile returns the time below which the share q of the runs took, 0 where none was measured.
func (t Times) Quantile(q float64) time.Duration {
	all := t.Count()
	if all == 0 {
		return 0
	}
	want := min(uint64(q*float64(all))+1, all)
	for _, b := range t.Buckets {
		if b.N >= want {
			return b.Below
		}
		want -= b.N
	}
	return 0
}

// P50 is what half of the runs took less than, P99 what 99 of a hundred did.
func (t Times) P50() time.Duration { return t.Quantile(0.50) }

// P99 is what 99 of a hundred runs took less than.
func (t Times) P99() time.Duration { return t.Quantile(0.99) }

// Plus returns the run times of both.
func (t Times) Plus(o Times) Times {
	sum := Times{Sum: t.Sum + o.Sum}
	a, b := t.Buckets, o.Buckets
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Below < b[0].Below:
			sum.Buckets, a = append(sum.Buckets, a[0]), a[1:]
		case b[0].Below < a[0].Below:
			sum.Buckets, b = append(sum.Buckets, b[0]), b[1:]
		default:
			sum.Buckets = append(sum.Buckets, Bucket{a[0].Below, a[0].N + b[0].N})
			a, b = a[1:], b[1:]
		}
	}
	sum.Buckets = slices.Concat(sum.Buckets, a, b)
	return sum
}
