package taskengine

import "fmt"

// Stuck names what the tasks of this node wait for and no node has: a function, or the resources of a request. ""
// when there is no such task. A task that waits for its turn in the queue does not count.
func (e *Engine) Stuck() string {
	x := e.net.Load()
	if x == nil {
		return ""
	}
	d := &x.deferred
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.order {
		if l.since != 0 {
			return fmt.Sprintf("a worker that has function %s (%d wait for it): start one with this program", l.entry.Name, len(l.futures))
		}
	}
	if len(d.unplaced) > 0 {
		w := d.unplaced[0].task
		return fmt.Sprintf("capacity: no node has what %s asks for free, nor for %d others", w.Name(), len(d.unplaced)-1)
	}
	return ""
}
