package ledger

import (
	"time"
)

// Yielder is Work that gives back what it has once it is idle and others wait for that.
type Yielder interface {
	// Yields reports whether it may give back CPU alone when tasks of one CPU wait for it (Line.Yielding). Such tasks must come to
	// the node for that: what it has is not in Held.
	Yields() bool
	// Idle reports whether it would give back now what it has. It takes no lock.
	Idle() bool
}

func yields(w Work) bool {
	y, ok := w.(Yielder)
	return ok && y.Yields()
}

// heldCPU is a Line as the pool of CPU that Held counts.
type heldCPU Line

// GiveCPU implements core.CPUPool.
func (h *heldCPU) GiveCPU(n int64) {
	h.held.Add(-n)
	(*Line)(h).GiveCPU(n)
}

// RetakeCPU implements core.CPUPool.
func (h *heldCPU) RetakeCPU(n int64) {
	h.held.Add(n)
	(*Line)(h).RetakeCPU(n)
}

// jobCPU is heldCPU for work of jobs.
type jobCPU Line

// GiveCPU implements core.CPUPool.
func (j *jobCPU) GiveCPU(n int64) {
	j.ofJobs.Add(-n)
	(*heldCPU)(j).GiveCPU(n)
}

// RetakeCPU implements core.CPUPool.
func (j *jobCPU) RetakeCPU(n int64) {
	j.ofJobs.Add(n)
	(*heldCPU)(j).RetakeCPU(n)
}

// What older work lacks is kept from younger, or a stream of small needs would starve a large one; but not for ever, or a large one
// that cannot begin would starve the rest. Two things are asked of work that is short of something:
//
//	does it come back?   beside what stays with grains of kinds that Keep, with bundles, and with sick devices
//	is it kept now?      for 10 s from when it was its turn, then left for 10 s, 20 s and 20 s, and so on up to 640 s
//
// It is the turn of work when it comes, or when the work of its shape before it has begun: a stream of large work that does begin has
// what it lacks kept all the time.
//
// A Gathering keeps what it waits for by a clock of its own, that of its group.
const (
	firstKept = 10 * time.Second
	mostKept  = 640 * time.Second
)

// Keeper is Work that may have what it has for as long as the node lives.
type Keeper interface {
	// Keeps reports whether that is so.
	Keeps() bool
}

// phase says whether what work lacks is kept for it when its turn has lasted so long, and until when.
func phase(waited time.Duration) (keeps bool, until time.Duration) {
	for length := firstKept; ; length = min(2*length, mostKept) {
		if length == mostKept && waited >= until+2*length { // far ahead
			until += (waited - until) / (2 * length) * (2 * length)
		}
		for _, keeps := range []bool{true, false} {
			if until += length; waited < until {
				return keeps, until
			}
		}
	}
}

// owed is what older work lacks, and is kept from younger: what is short of all but devices, and each device that older work could
// have. Work of which another device is as good goes past.
type owed struct {
	Shortage        // GPU is that of any device
	devices  []bool // by their numbers; nil for none
}

// add adds what n, which is short of s, lacks.
func (o *owed) add(l *Ledger, n *Need, s *Shortage) {
	o.Add(s)
	if !s.GPU {
		return
	}
	if o.devices == nil {
		o.devices = make([]bool, len(l.devices))
	}
	for i := range l.devices {
		o.devices[i] = o.devices[i] || l.devices[i].could(n)
	}
}

// keeps reports whether n, which may be free but for that, asks for something that is owed, beside devices.
func (o *owed) keeps(n *Need) bool {
	s := o.Shortage
	s.GPU = false
	return s.Touches(n)
}

// of is what n asks for, beside devices, that is owed.
func (o *owed) of(n *Need) (s Shortage) {
	s.CPU, s.Memory = o.CPU && n.CPU > 0, o.Memory && n.Memory > 0
	for _, k := range o.Custom {
		if n.Custom[k] > 0 {
			s.Custom = append(s.Custom, k)
		}
	}
	return s
}

// device reports whether a device is owed.
func (o *owed) device(i int) bool { return o.devices != nil && o.devices[i] }
