package taskengine

import (
	"fmt"
	"maps"

	"github.com/raysys/raysys/internal/core"
)

// Demand is tasks of one shape for which no node is free, or none is there.
type Demand struct {
	Resources core.Resources
	Labels    map[string]string
	Count     int
	Oldest    int64 // when the oldest began to wait, on the runtime's clock
}

// Unplaced is the tasks of this node that no node could take when it was last tried.
func (e *Engine) Unplaced() (list []Demand) {
	x := e.net.Load()
	if x == nil {
		return nil
	}
	d := &x.deferred
	d.mu.Lock()
	defer d.mu.Unlock()
	at := map[string]int{}
	of := map[*core.Options]string{} // most are of a few handles
	for _, w := range d.unplaced {
		if !w.future.Pending() {
			continue
		}
		o := w.task.request().Options
		shape, known := of[o]
		if !known {
			shape = fmt.Sprint(o.Resources, o.Labels)
			of[o] = shape
		}
		i, ok := at[shape]
		if !ok {
			i = len(list)
			at[shape] = i
			list = append(list, Demand{Resources: o.Resources, Labels: maps.Clone(o.Labels), Oldest: w.since})
		}
		list[i].Count++
		list[i].Oldest = min(list[i].Oldest, w.since)
	}
	return list
}
