package replay

import (
	"errors"
	"fmt"
	"math"
)

// Limiter says when a table may be sampled, and when it takes another item. Calls wait until it opens.
//
// With d = inserts x ratio - samples, a table is sampled while it has minSize items and d stays at minDiff at least, and takes items while d
// stays at maxDiff at most, or it has fewer than minSize: Reverb's RateLimiter.
type Limiter struct {
	name, bad        string
	minSize, queue   int
	ratio            float64
	minDiff, maxDiff float64
}

// String is its name and numbers.
func (l Limiter) String() string { return l.name }

// MinSize opens a table for sampling once it has so many items.
func MinSize(n int) Limiter {
	return Limiter{name: fmt.Sprintf("MinSize(%d)", n), minSize: n, ratio: 1, minDiff: -math.MaxFloat64, maxDiff: math.MaxFloat64}
}

// SampleToInsertRatio keeps the number of samples for each item near ratio, once the table has minSize items. errorBuffer is how many samples
// they may be ahead or behind: a small one keeps a learner in step with its actors, a large one lets them run apart.
func SampleToInsertRatio(ratio float64, minSize int, errorBuffer float64) Limiter {
	offset := ratio * float64(minSize)
	l := Limiter{
		name:    fmt.Sprintf("SampleToInsertRatio(%g, %d, %g)", ratio, minSize, errorBuffer),
		minSize: minSize, ratio: ratio, minDiff: offset - errorBuffer, maxDiff: offset + errorBuffer,
	}
	switch {
	case !(ratio > 0) || math.IsInf(ratio, 0):
		l.bad = "give a ratio above 0"
	case !(errorBuffer >= max(1, ratio)):
		l.bad = fmt.Sprintf("it may shut out samples and inserts at the same time: give an error buffer of %g at least", max(1, ratio))
	}
	return l
}

// Queue takes at most size items that were not sampled, and gives each once: for a table with FIFO, and MaxTimesSampled of 1.
func Queue(size int) Limiter {
	if size < 1 {
		size = -1
	}
	return Limiter{name: fmt.Sprintf("Queue(%d)", size), minSize: 1, queue: size, ratio: 1, minDiff: 0, maxDiff: float64(size)}
}

// check refuses what could never open.
func (l Limiter) check(maxSize int) error {
	switch {
	case l.name == "":
		return errors.New("no limiter: give MinSize(1)")
	case l.bad != "":
		return fmt.Errorf("%s: %s", l.name, l.bad)
	case l.minSize < 1 || l.minSize > maxSize || l.queue < 0 || l.queue > maxSize:
		return fmt.Errorf("%s never opens: the table has 1 to %d items", l.name, maxSize)
	}
	return nil
}

func (l Limiter) diff(inserts, samples uint64) float64 {
	return float64(inserts)*l.ratio - float64(samples)
}

// mayInsert reports whether the table takes one more item.
func (l Limiter) mayInsert(size int, inserts, samples uint64) bool {
	return size < l.minSize || l.diff(inserts+1, samples) <= l.maxDiff
}

// maySample is how many samples may be taken, of up to n.
func (l Limiter) maySample(size int, inserts, samples uint64, n int) int {
	if size < l.minSize {
		return 0
	}
	room := l.diff(inserts, samples) - l.minDiff
	if room >= float64(n) {
		return n
	}
	return max(0, int(math.Floor(room)))
}

// sampled is how many samples so many items begin with where their limiter begins anew: a ratio is in the middle of its buffer then.
func (l Limiter) sampled(items int) uint64 {
	if items < l.minSize || l.queue > 0 || l.maxDiff == math.MaxFloat64 || math.IsInf(l.maxDiff, 0) {
		return 0
	}
	return uint64(max(0, l.diff(uint64(items), 0)-(l.minDiff+l.maxDiff)/2))
}
