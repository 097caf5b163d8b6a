package refs

import "github.com/raysys/raysys/internal/core"

// valueWait waits until the value of a future is here.
type valueWait struct {
	core.Waiter
	future *core.Future
	tell   func(v any, err error)
}

// WhenHere is whenHere for a caller that keeps the value as an object.
func WhenHere(c *core.Future, tell func(v any, err error)) { whenHere(c, tell) }

// whenHere calls tell with a pointer to the value of c, which must only be read, once c has settled and its value is
// here, or with its failure. The caller has pinned c, and unpins it when it does not read the value any more.
func whenHere(c *core.Future, tell func(v any, err error)) {
	a := &valueWait{future: c, tell: tell}
	if !c.Subscribe(&a.Waiter, a) {
		a.look(c)
	}
}

// Resolved implements core.Resolved.
func (a *valueWait) Resolved(w *core.Waiter) { a.look(w.Future()) }

// look is called when at has settled: the future itself, or the one that fetches its value.
func (a *valueWait) look(at *core.Future) {
	for !at.Follow(&a.Waiter, a) {
		v, err := a.future.Outcome()
		lost := a.future.Failure()
		if err == nil || lost != nil || !a.future.Absent() {
			if lost != nil {
				err = lost
			}
			a.tell(v, err)
			return
		}
		at = a.future // the value was evicted in this moment
	}
}
