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
	Group     string // the placement group whose bundle has no node yet; "" for tasks outside of groups
	Count     int
	Oldest    int64 // when the oldest began to wait, on the runtime's clock
}

// Unplaced is the tasks of this node that no node could take when it was last tried.
func (e *Engine) Unplaced() []Demand {
	var s unplacedShapes
	e.bundles.mu.Lock()
	s.add(e.bundles.deferred)
	e.bundles.mu.Unlock()
	if x := e.net.Load(); x != nil {
		d := &x.deferred
		d.mu.Lock()
		s.add(d.unplaced)
		d.mu.Unlock()
	}
	return s.list
}

// unplacedShapes counts tasks by shape.
type unplacedShapes struct {
	list []Demand
	at   map[string]int
	of   map[*core.Options]string // most tasks are of a few handles
}

func (s *unplacedShapes) add(tasks []unplacedTask) {
	if s.at == nil {
		s.at, s.of = map[string]int{}, map[*core.Options]string{}
	}
	for _, w := range tasks {
		if !w.task.Future.Pending() {
			continue
		}
		o := w.task.request().Options
		shape, known := s.of[o]
		if !known {
			shape = fmt.Sprintf("%#v %v %s", o.Resources, o.Labels, o.Bundle.Group)
			s.of[o] = shape
		}
		i, ok := s.at[shape]
		if !ok {
			i = len(s.list)
			s.at[shape] = i
			s.list = append(s.list, Demand{Resources: o.Resources, Labels: maps.Clone(o.Labels), Group: o.Bundle.Group, Oldest: w.since})
		}
		s.list[i].Count++
		s.list[i].Oldest = min(s.list[i].Oldest, w.since)
	}
}
