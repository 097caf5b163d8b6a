package ledger

// Held is the CPU, in thousandths, that work has which holds more than CPU, and that bundles have: one-CPU tasks do not get it soon.
// While such work waits it has given its CPU back. A change is reported as one of what is free beside CPU is (Hooks.Changed).
func (l *Line) Held() int64 { return l.held.Load() }

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
