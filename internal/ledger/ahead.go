package ledger

import "time"

// Times says how long the work of a Line takes. It is called under the lock of the Line.
type Times interface {
	// Runs is how much longer work takes that was granted what it asks for at since, by Hooks.Now.
	Runs(w Work, since int64) time.Duration
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
// at what runs, and at what waits here. A task that has one of four devices is a quarter of the node's work. What bundles have is
// left out.
func (l *Line) Ahead(t Times) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := int64(0) // microseconds, for which the sums of a million of the longest do not overflow
	add := func(n *Need, takes time.Duration, count int) {
		sum += min(takes, maxTakes).Microseconds() * l.ledger.part(n) / Unit * int64(count)
	}
	for h, w := range l.running {
		add(&h.need, t.Runs(w, h.since), 1)
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
	return time.Duration(sum) * time.Microsecond
}

// part is how much of the node n asks for, in thousandths: of what there is the least of for it.
func (l *Ledger) part(n *Need) int64 {
	part := int64(0)
	of := func(want, have int64) {
		if want > 0 && have > 0 {
			part = max(part, int64(float64(want)/float64(have)*Unit))
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
	return min(part, Unit)
}
