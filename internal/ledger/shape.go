package ledger

import (
	"cmp"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// shape is the claims with one need, of one class and of one job, oldest first; never empty.
type shape struct {
	need   Need
	class  core.Class
	job    *core.Job // nil for work of none
	key    shapeKey
	claims []claim
	turn   int64 // since when it is the turn of the oldest: that it came, or that the last of the shape began
}

// shapeKey is what the claims of a shape have in common.
type shapeKey struct {
	job  *core.Job
	name string // Need.String, with what that does not say
}

// claim is Work that waits.
type claim struct {
	work   Work
	queued uint64 // tasks queued before it: they go first
	order  uint64
	since  int64 // when it was pushed, by Hooks.Now
	level  int64 // Shares.Level then, of work of no job
}

// Standing is by what work of a Line goes before or after others'.
type Standing struct {
	Job   *core.Job  // nil for work of none
	Level int64      // of work of no job: Shares.Level when it came
	Class core.Class // risen by how long it has waited
}

// place is that of a claim in the order.
type place struct {
	used  int64 // 0 where all claims are of one job
	class core.Class
	order uint64
}

func (s *shape) standing(c *claim, now int64) Standing {
	return Standing{s.job, c.level, s.class.Risen(time.Duration(now - c.since))}
}

// Used is what stands for the use of a job.
func (s *Standing) Used(shares *Shares, now int64) int64 {
	if s.Job == nil {
		return s.Level
	}
	return shares.Used(s.Job, now, now)
}

func (p *place) compare(o *place) int {
	return cmp.Or(cmp.Compare(p.used, o.used), -cmp.Compare(p.class, o.class), cmp.Compare(p.order, o.order))
}
