package demo

import (
	"math/bits"
	"time"
)

// latencies counts durations in buckets, so that memory does not grow with the time of serving. Below 64 ns a bucket
// is a nanosecond wide, above it a 32nd of the power of two below, so a quantile is at most 2 % off.
type latencies struct {
	n       int
	buckets [latencyBuckets]int
}

const (
	latencyBits = 5 // of a value's leading ones that a bucket keeps beside the first
	// Values have at most 63 bits.
	latencyBuckets = (63 - latencyBits + 1) << latencyBits
)

func (l *latencies) record(d time.Duration) {
	l.n++
	l.buckets[latencyBucket(uint64(max(d, 0)))]++
}

func latencyBucket(v uint64) int {
	shift := max(bits.Len64(v)-latencyBits-1, 0)
	return shift<<latencyBits + int(v>>shift)
}

// latencyOf is the middle of a bucket.
func latencyOf(bucket int) time.Duration {
	shift := max(bucket>>latencyBits-1, 0)
	low := uint64(bucket-shift<<latencyBits) << shift
	return time.Duration(low + 1<<shift/2)
}

func (l *latencies) add(from *latencies) {
	l.n += from.n
	for i, n := range from.buckets {
		l.buckets[i] += n
	}
}

// quantile returns the least duration that at least the share q of all do not exceed, 0 for none.
func (l *latencies) quantile(q float64) time.Duration {
	rank, seen := q*float64(l.n), 0
	for i, n := range l.buckets {
		if seen += n; n > 0 && float64(seen) >= rank {
			return latencyOf(i)
		}
	}
	return 0
}
