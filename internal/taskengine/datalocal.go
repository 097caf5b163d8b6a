package taskengine

import (
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// A task whose values are on other nodes goes to one of them instead of having them fetched to this one first: it is
// data-local. Its argument is not complete here, so it is never in a queue that workers take from. Config.Place chooses
// its node. A peer fetches its values before it takes a CPU. If the chosen node is this one, the task continues as an
// ordinary task that fetches its values (stay).

// deps returns what holds, or held, the task back; nil for one that had nothing to wait for.
func (r *record) deps() *deps {
	if t := r.Future.OwnTurn(); t != nil {
		d, _ := t.Attached().(*deps)
		return d
	}
	return nil
}

// goesToValues implements heldTask.
func (r *record) goesToValues(d *deps) bool {
	e := engineOf(r.Future.Up())
	if e.cfg.Place == nil || d.stays {
		return false
	}
	for _, c := range d.futures {
		if c.Absent() {
			return true
		}
		if w, ok := core.WhereaboutsOf(c); ok && w.Node != "" {
			return true
		}
	}
	return false
}

// keepsParams implements heldTask. An argument that is too large for a frame travels as references: better to the
// values that the program gave, which the other node may have already, than to new objects.
func (r *record) keepsParams(*deps) bool {
	return engineOf(r.Future.Up()).cfg.Place != nil && !r.spec.refs && wire.Exceeds(r.spec.arg, r.argAt(), wire.ValueLimit)
}

// inputs says where the values are that the task needs, as far as they are large.
func (d *deps) inputs() (list []core.Whereabouts) {
	seen := map[*core.Future]bool{}
	for _, c := range d.futures {
		w, ok := core.WhereaboutsOf(c)
		if !ok {
			w = core.Whereabouts{Size: sizeHere(c), Here: true}
		}
		if w.Size > raysys.ObjectSize && !seen[c] {
			seen[c] = true
			list = append(list, w)
		}
	}
	return list
}

// sizeHere is the size of a value in this node's memory, 0 where there is none.
func sizeHere(c *core.Future) int64 {
	v, err := c.Outcome()
	if err != nil {
		return 0
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return 0
	}
	return int64(plan.Size(value))
}

// stay has a task that is data-local run on this node, once its values are here. False for one that is not data-local.
func (r *record) stay(e *Engine) bool {
	d := r.deps()
	if d == nil || !d.dataLocal.Load() {
		return false
	}
	bytes := r.argBytes()
	e.hold(&r.Future) // before a goroutine that cancels the task finds it held
	if !r.Future.Rehold() {
		e.unhold(&r.Future)
		e.checkDrained()
		return true // it was cancelled, which did its accounts
	}
	e.started(bytes) // it is counted again when it is ready
	d.stays, d.fetch = true, true
	d.dataLocal.Store(false)
	d.fetchAbsent()
	return true
}
