package tasks

import (
	"sync/atomic"

	"github.com/raysys/raysys"
)

// deps holds a task back until the futures it needs have settled. It is the host of the task's turn while it waits.
type deps struct {
	task    held
	left    atomic.Int32 // futures still open, and one for the submitter
	waiters []raysys.Waiter
	cores   []*raysys.Core
	fill    func() error // takes the values of parameters given by reference
}

// held is what deps needs of the record it holds.
type held interface {
	ready()
	settleFailed(error)
}

// wait subscribes to all of cores. The task is held and not yet published.
func (d *deps) wait() {
	d.waiters = make([]raysys.Waiter, len(d.cores))
	d.left.Store(int32(len(d.cores)) + 1)
	for i, c := range d.cores {
		if !c.Subscribe(&d.waiters[i], d) {
			d.left.Add(-1)
		}
	}
	d.settled()
}

// Resolved implements raysys.Resolved.
func (d *deps) Resolved(*raysys.Waiter) { d.settled() }

func (d *deps) settled() {
	if d.left.Add(-1) > 0 {
		return
	}
	// A failed dependency fails the task with that error, and the task does not run: the first in parameter order, so
	// that the outcome does not depend on timing.
	for _, c := range d.cores {
		if err := c.Failure(); err != nil {
			d.end()
			d.task.settleFailed(err)
			return
		}
	}
	if err := d.end(); err != nil {
		d.task.settleFailed(err)
		return
	}
	d.task.ready()
}

// end takes the values, also when the task will not run, since taking ends the loan of each.
func (d *deps) end() error {
	if d.fill == nil {
		return nil
	}
	return d.fill()
}

// open returns the futures the task still waits for.
func (d *deps) open() (cores []*raysys.Core) {
	for _, c := range d.cores {
		if !c.Settled() {
			cores = append(cores, c)
		}
	}
	return cores
}

// hold makes r wait for cores and then take its parameters with fill.
func (r *record[A, R]) hold(up *raysys.Turn, cores []*raysys.Core, fill func() error) *deps {
	d := &deps{task: r, cores: cores, fill: fill}
	r.Hold()
	engineOf(up).held.Add(1)
	t := r.OwnTurn()
	if t == nil {
		t = raysys.NewTurn(raysys.TurnSpec{Kind: raysys.TurnTask, Name: r.Name(), ID: r.ID(), Up: up, Attempt: 1})
	}
	t.SetKind(raysys.TurnTask, d)
	r.SetOwn(t)
	return d
}
