package bench

import (
	"math/bits"
	"time"
)

// hist counts durations in buckets that are at most 1/128 of their value wide: constant memory, and no allocation
// while something is being measured.
type hist struct {
	counts [histBuckets]uint64
	n      uint64
	max    time.Duration
}

const (
	histBits    = 7
	histSub     = 1 << histBits
	histBuckets = (64 - histBits) * histSub
)

func histIndex(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := bits.Len64(v) - histBits - 1
	if shift <= 0 {
		return int(v)
	}
	return shift*histSub + int(v>>shift)
}

// histMiddle is the middle of bucket i.
func histMiddle(i int) time.Duration {
	shift := i/histSub - 1
	if shift <= 0 {
		return time.Duration(i)
	}
	low := uint64(i%histSub+histSub) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *hist) add(d time.Duration) {
	h.counts[histIndex(d)]++
	h.n++
	h.max = max(h.max, d)
}

func (h *hist) merge(o *hist) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share q of the durations does not exceed; 0 when there are none.
func (h *hist) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen > rank {
			return min(histMiddle(i), h.max)
		}
	}
	return h.max
}

// us is a duration in microseconds.
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
