package lineage

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// departure is what waits until some futures may be named to another node.
type departure struct {
	lineage *Lineage
	left    atomic.Int32 // futures that are not recorded, and one for the caller
	over    sync.Once
	then    func(error)
	at      int64 // it leaves unrecorded then

	mu  sync.Mutex // guards err
	err error
}

// patience is how long a reference waits for the store. Then it leaves unrecorded.
const patience = time.Second

// begin has d wait, for the patience, unless all is done.
func (d *departure) begin() {
	if d.left.Load() > 1 {
		d.lineage.wait(d)
	}
	d.done(nil)
}

// done is called when one thing that d waits for is done.
func (d *departure) done(err error) {
	known := (*elsewhere)(nil)
	if err != nil && !errors.As(err, &known) {
		d.mu.Lock()
		if d.err == nil {
			d.err = err
		}
		d.mu.Unlock()
	}
	if d.left.Add(-1) == 0 {
		d.leave()
	}
}

func (d *departure) leave() {
	d.over.Do(func() {
		d.mu.Lock()
		err, then := d.err, d.then
		d.then = nil
		d.mu.Unlock()
		then(err)
	})
}

// look has d wait for what must be recorded before another node may know c.
func (d *departure) look(c *core.Future) {
	rec, settling := taskengine.RecipeOf(c)
	switch {
	case settling:
		d.left.Add(1)
		s := &settled{departure: d, future: c}
		if !c.Subscribe(&s.Waiter, s) {
			s.Resolved(nil)
		}
		return
	case rec != nil && c.Settled() && !c.Object(): // its outcome travels along
		d.inner(c)
		if rec.Run() != 0 {
			d.left.Add(1)
			d.lineage.records.tellOutcome(rec, c, d.done)
		}
		return
	case rec != nil && rec.Run() == 0:
		d.left.Add(1)
		d.lineage.records.recordRecipe(rec, func(err error) { d.recorded(rec, c, err) })
	case rec != nil:
		d.left.Add(1)
		d.recorded(rec, c, nil)
	default:
		if s := refs.Unrecorded(c); s != nil {
			d.left.Add(1)
			s.Record(func() { d.done(nil) })
			return
		}
	}
	d.inner(c)
}

// recorded has d wait for the record of c, a task, to say where the object is that the task may have computed.
func (d *departure) recorded(rec *taskengine.Recipe, c *core.Future, err error) {
	if err != nil || rec.Run() == 0 || !c.Settled() {
		d.done(err)
		return
	}
	d.lineage.noted(registry.TaskKey{Run: rec.Run(), ID: rec.ID()}, d.done)
}

func (d *departure) lookAll(futures []*core.Future) {
	for _, c := range futures {
		d.look(c)
	}
}

// settled looks at a future again that has settled.
type settled struct {
	core.Waiter
	departure *departure
	future    *core.Future
}

// Resolved implements core.Resolved.
func (s *settled) Resolved(*core.Waiter) {
	s.departure.look(s.future)
	s.departure.done(nil)
}

// inner has d wait for the references inside the value of c. Those in a value that nothing here has read leave the node
// that has it.
func (d *departure) inner(c *core.Future) {
	if !c.Settled() || c.Pin() != nil {
		return
	}
	defer c.Unpin()
	v, err := c.Outcome()
	if err != nil { // a failure, or the value is not in memory
		if e := (*core.Elsewhere)(nil); errors.As(err, &e) {
			if s, ok := e.Source.(core.Referring); ok {
				d.lookAll(s.Refers())
			}
		}
		return
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil || !plan.HasRefs() {
		return
	}
	plan.Refs(value, func(r core.RefValue) {
		if f := r.RefFuture(); f != nil {
			d.look(f)
		}
	})
}
