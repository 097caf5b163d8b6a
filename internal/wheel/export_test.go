package wheel

import "github.com/raysys/raysys/internal/core"

// Move sets a.At to at and arms a, wherever it was before. It is the way to change At of an alarm that may be set.
func (w *Wheel) Move(a *core.Alarm, at int64) {
	w.mu.Lock()
	a.At = at
	w.set(a)
	w.mu.Unlock()
}
