package taskengine

import "fmt"

// Stuck names what the tasks of this node wait for and no node has: a function, or the resources of a request. ""
// when there is no such task. A task that waits for its turn in the queue does not count.
func (e *Engine) Stuck() string {
	x := e.net.Load()
	if x == nil {
		return ""
	}
	a := &x.deferred
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.order {
		if l.since != 0 {
			return fmt.Sprintf("a worker that has function %s (%d wait for it): start one with this program", l.entry.Name, len(l.futures))
		}
	}
	if len(a.placed) > 0 {
		w := a.placed[0].w
		return fmt.Sprintf("capacity: no node has what %s asks for free, nor for %d others", w.Name(), len(a.placed)-1)
	}
	return ""
}
