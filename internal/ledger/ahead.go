package ledger

import (
	"math"
	"time"
)

// Times says how long the work of a Line takes. It is called under the lock of the Line.
type Times interface {
	// Runs is how much longer work takes that was granted what it asks for at since, by Hooks.Now. known is false for work of which
	// nobody knows when it ends: then it is how long it has had that.
	Runs(w Work, since int64) (takes time.Duration, known bool)
	// Waits is how long work takes that waits. It is called after Runs.
	Waits(w Work) time.Duration
}

const (
	// maxWeighed is how many pieces of work of one shape are looked at, the oldest.
	maxWeighed = 128
	// maxTakes bounds what one piece of work is taken to last, so that sums do not overflow.
	maxTakes = 30 * 24 * time.Hour
)

// Ahead estimates how long work would wait that is pushed now and finds what it asks for taken: for so long the node as a whole is
// at what runs, and at what waits here. A task that has one of four devices is a quarter of the node's work.
//
// What bundles have, and grains that are at work, is not there for others: the node is that much smaller. Where nothing is left of it
// others wait for as long as the last of those has had it, the best guess there is.
func (l *Line) Ahead(t Times) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := int64(0) // microseconds, for which the sums of a million of the longest do not overflow
	add := func(n *Need, takes time.Duration, count int) {
		sum += min(takes, maxTakes).Microseconds() * l.ledger.part(n, Unit) / Unit * int64(count)
	}
	var kept [2]int64 // of devices, of the rest
	last := maxTakes
	keep := func(n *Need, had time.Duration) {
		k := &kept[1]
		if n.GPU > 0 {
			k = &kept[0]
		}
		*k += l.ledger.part(n, Unit)
		last = min(last, had)
	}
	for h, w := range l.running {
		takes, known := t.Runs(w, h.since)
		if !known {
			keep(&h.need, takes)
			continue
		}
		add(&h.need, takes, 1)
	}
	for _, b := range l.bundles {
		keep(&b.hold.need, time.Duration(l.hooks.Now()-b.hold.since))
	}
	for _, s := range l.shapes {
		all, looked, waits := time.Duration(0), 0, 0
		for i := range s.claims[:min(len(s.claims), maxWeighed)] {
			if looked++; !s.claims[i].work.Over() {
				all += min(t.Waits(s.claims[i].work), maxTakes)
				waits++
			}
		}
		if waits > 0 {
			add(&s.need, all/time.Duration(waits), waits*len(s.claims)/looked)
		}
	}
	left := Unit - max(kept[0], kept[1])
	if left <= 0 {
		return max(time.Duration(min(sum, maxTakes.Microseconds()))*time.Microsecond, last)
	}
	return time.Duration(min(float64(sum)*Unit/float64(left)*float64(time.Microsecond), math.MaxInt64/2))
}

// part is how much of the node n asks for, where whole is all of it: of what there is the least of for it.
func (l *Ledger) part(n *Need, whole int64) int64 {
	part := int64(0)
	of := func(want, have int64) {
		if want > 0 && have > 0 {
			part = max(part, int64(float64(want)/float64(have)*float64(whole)))
		}
	}
	of(n.CPU, l.total.CPU)
	of(n.Memory, l.total.Memory)
	for k, v := range n.Custom {
		of(v, l.total.Custom[k])
	}
	if n.GPU > 0 {
		share, memory := int64(0), int64(0)
		for i := range l.devices {
			if d := &l.devices[i]; d.could(n) {
				share += d.total
				memory += d.Memory
			}
		}
		of(n.GPU, share)
		of(n.GPUMemory*int64(n.count()), memory)
	}
	return min(part, whole)
}
