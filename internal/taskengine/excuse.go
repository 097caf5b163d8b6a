package taskengine

import (
	"errors"

	"github.com/raysys/raysys/internal/core"
)

// A task with a name may run for longer than its nodes live, so a node that dies is no attempt of it. One that dies soon after it was given
// the task is: the task may be what ends it, and must not go round the nodes. In a row, Retries bounds those:
//
//	ran ──► its node is lost ──► excused, and so are those before      a node that drains ──► excused
//	       not ran ──► its node is lost ──► counted
//
// The record counts the same for nodes that were its submitters: see registry.TaskRecord.Early.

// Ran notes that c, a task with a name, has run for a while in its attempt.
func Ran(c *core.Future) {
	r, rec := taskOf(c), recipeOf(c)
	if r == nil || rec == nil {
		return
	}
	t := r.Future.OwnTurn() // the recipe hangs there
	attempt, redraws := t.Attempt(), int(t.Redraws())
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ran = attempt
	rec.excused = attempt - r.spec.before - 1 - redraws
}

// excuse reports whether an attempt whose node is lost does not count, and notes that.
func (r *record) excuse(attempt int, cause error) bool {
	rec := r.namedRecipe()
	if rec == nil {
		return false
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.ran != attempt && !errors.Is(cause, errClosing) {
		return false
	}
	rec.excused++
	return true
}

// counted is how many attempts Retries counts, up to this one.
func (r *record) counted(attempt int) int {
	n := attempt - r.spec.before
	if rec := r.namedRecipe(); rec != nil {
		rec.mu.Lock()
		n -= rec.excused
		rec.mu.Unlock()
	}
	return n
}

// namedRecipe is the recipe of a task with a name; nil for others.
func (r *record) namedRecipe() *recipe {
	if r.spec.opts.Name == "" {
		return nil
	}
	return recipeOf(&r.Future)
}
