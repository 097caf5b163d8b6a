package lineage

import (
	"reflect"

	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
)

// Needed are the futures that the records of this node's tasks name: large recipes, what the arguments refer to, and what those values
// refer to. Whichever node takes such a task over needs them.
func Needed(l *Lineage) map[*core.Future]bool {
	var inputs []*core.Future
	needed := map[*core.Future]bool{}
	l.mu.Lock()
	for _, t := range l.own {
		if t.large != nil {
			needed[t.large.future] = true
		}
		if c := t.future.Value(); c != nil {
			if rec, _ := taskengine.RecipeOf(c); rec != nil {
				inputs = append(inputs, rec.Inputs()...)
			}
		}
	}
	l.mu.Unlock()
	for len(inputs) > 0 {
		c := inputs[len(inputs)-1]
		if inputs = inputs[:len(inputs)-1]; !needed[c] {
			needed[c] = true
			inputs = append(inputs, inner(c)...)
		}
	}
	return needed
}

// inner are the futures to which a value refers that lies in its future.
func inner(c *core.Future) (list []*core.Future) {
	if !c.Settled() || c.Object() || c.Absent() || c.Pin() != nil {
		return nil
	}
	defer c.Unpin()
	v, err := c.Outcome()
	if err != nil {
		return nil
	}
	value := reflect.ValueOf(v).Elem()
	if plan, err := codec.PlanOf(value.Type()); err == nil {
		plan.Refs(value, func(r core.RefValue) {
			if to := r.RefFuture(); to != nil {
				list = append(list, to)
			}
		})
	}
	return list
}
