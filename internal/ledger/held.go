package ledger

// Held is the CPU, in thousandths, that work has which asks for other than one CPU, and that bundles have: one-CPU tasks do not get it soon.
// While such work waits it has given its CPU back. A change is reported as one of what is free beside CPU is (Hooks.Changed).
func (l *Line) Held() int64 { return l.held.Load() }

// Shared is what work of jobs has of that, in thousandths, while more waits for CPU: it goes round by the use of the jobs, so one-CPU tasks of
// another job get their part of it once they wait here. 0 while none waits.
func (l *Line) Shared() int64 {
	if l.lackCPU.Load() {
		return max(l.ofJobs.Load(), 0)
	}
	return 0
}

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
