package taskengine

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/taskwire"
)

// Most tasks ask for one CPU and go through the lock-free queue. The others wait in the node's ledger.Line.

// maxZeroCPU bounds the tasks that run without asking for a CPU, which the count of CPUs does not bound. Tasks that
// wait in Get do not count, or a deep chain of them would stop for ever.
const maxZeroCPU = 10_000

// shaped is a task that asks for other than one CPU, as ledger.Work.
type shaped struct {
	*core.Future
	bound bool // it cannot travel
}

func (w shaped) engine() *Engine { return engineOf(w.Up()) }

// Job implements ledger.Work.
func (w shaped) Job() *core.Job { return w.Up().Job() }

// Over implements ledger.Work.
func (w shaped) Over() bool {
	if t := w.OwnTurn(); t != nil {
		return w.Settled() || t.Cancelled() != nil
	}
	return w.Settled() || w.Up().Cancelled() != nil
}

// Begins implements ledger.Work.
func (w shaped) Begins(n *ledger.Need) bool {
	if n.CPU != 0 {
		return true
	}
	e := w.engine()
	if e.zeroCPU.Load() >= maxZeroCPU {
		return false
	}
	e.zeroCPU.Add(1)
	return true
}

// Grant implements ledger.Work. The worker drops a task that is over.
func (w shaped) Grant(h *ledger.Hold) {
	w.engine().shaped.Add(-1)
	w.engine().start(job{future: w.Future, hold: h})
}

// Leaves implements ledger.Mover. A task that was given to this node with its values stays, and so does one whose strategy looks at
// other things than room.
func (w shaped) Leaves() bool {
	e, t := w.engine(), taskOf(w.Future)
	r := t.request()
	if e.cfg.Place == nil {
		return t.spec.need.Bundle.Group == "" && !e.line.Could(t.spec.need) && !e.waitsForResources(r.Options)
	}
	if w.bound || t.stays() {
		return false
	}
	if t.spec.need.Bundle.Group != "" {
		return e.cfg.RoomInGroup(t.spec.need, isInbound(w))
	}
	if !e.line.Could(t.spec.need) {
		return true
	}
	return e.roomElsewhere(t, isInbound(w))
}

// roomElsewhere reports whether another node has room now for a task that waits here.
func (e *Engine) roomElsewhere(t *record, inbound bool) bool {
	r := t.request()
	r.Move = true
	if inbound {
		r.Needs = new(t.spec.need.Resources())
	}
	to, err := e.cfg.Place(r)
	return err == nil && to != nil
}

// Alike implements ledger.Mover: tasks of one handle go to the same nodes, but for those that stay. Of a task of another node only its
// function and its labels are known.
func (w shaped) Alike() any {
	t := taskOf(w.Future)
	a := alike{of: t.request().Options, stays: w.bound || t.stays()}
	if isInbound(w) {
		a.of, a.in, a.labels = t.entry(), t.spec.need.Bundle, string(taskwire.AppendLabels(nil, t.request().Options.Labels))
	}
	return a
}

type alike struct {
	of    any // the options of the handle, or the function
	in    core.Bundle
	stays bool

	labels string
}

// fits reports whether the node as a whole could ever run a task.
func (e *Engine) fits(n ledger.Need) error {
	if n.Bundle.Group != "" {
		return nil // that is for the bundle to say
	}
	s := e.line.Ever(n)
	if s.Empty() {
		return nil
	}
	return fmt.Errorf("%w: the task asks for more than any node has (%w): ask for less, or raise system.Config.Resources",
		raysys.ErrNoCapacity, s.Err())
}

// pushShaped queues a task that asks for other than one CPU.
func (e *Engine) pushShaped(c *core.Future, n ledger.Need) {
	e.shaped.Add(1)
	e.line.Push(n, shaped{Future: c})
	e.leaveSick(&n)
}

// leaveSick is called when work was queued, maybe by Line.Move. On a node without others nothing else has it end that asks for sick devices.
func (e *Engine) leaveSick(n *ledger.Need) {
	if e.cfg.Place == nil && n.GPU > 0 && e.line.Ill() {
		e.cfg.Pool.Go(goroutines.Func(e.line.Move))
	}
}

// pushBound is pushShaped for a task that cannot travel.
func (e *Engine) pushBound(c *core.Future, n ledger.Need) {
	e.shaped.Add(1)
	e.line.Push(n, shaped{c, true})
}

// pushIn is pushShaped for a task that draws from a bundle, if n names one; false when no such bundle is here.
func (e *Engine) pushIn(c *core.Future, n ledger.Need) (bool, error) {
	e.shaped.Add(1)
	pushed, never := e.line.PushIn(n, shaped{Future: c})
	if pushed {
		e.leaveSick(&n)
		return true, nil
	}
	e.shaped.Add(-1)
	if never.Empty() {
		return false, nil
	}
	return false, fmt.Errorf("%w: the task asks for more than its bundle has (%w)", raysys.ErrNoCapacity, never.Err())
}

// droppedShaped is called when a waiting shaped task was cancelled: CPUs may have been reserved for it.
func (e *Engine) droppedShaped(n ledger.Need) {
	e.line.Dropped(n)
	e.freed()
}

// freed is called when resources have become free.
func (e *Engine) freed() {
	if e.waits() {
		e.wake()
	}
}

// endShaped frees what a shaped task held.
func (e *Engine) endShaped(j *job, s *core.CPUSlot) {
	h := j.hold
	if h == nil {
		return
	}
	if x := e.net.Load(); x != nil && j.ran {
		x.means.learnShaped(j.future, h, s, e.now())
	}
	if h.Need().CPU == 0 {
		e.zeroCPU.Add(-1)
	}
	e.line.Return(h)
}

func isTask(w ledger.Work) bool {
	_, ok := w.(shaped)
	return ok
}

func isInbound(w ledger.Work) bool {
	t, ok := w.(shaped)
	if ok {
		_, ok = t.Work().(*inboundTask)
	}
	return ok
}
