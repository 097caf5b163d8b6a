package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// What waits in a line begins in this order, where what it asks for is free (ADR 0055).
//
//	where work of several jobs waits   that of the job with the least use of the node for its weight
//	of it                              that of the highest class; what has waited rises by a class for each core.AgeStep
//	of it                              the oldest
//
// Work of no job goes between those: it has the level at which it came in place of a use. The use of jobs grows past that, so that it
// neither starves nor holds up more than what came after it.

// Standing is by what work of a Line goes before or after others'.
type Standing struct {
	Job   *core.Job  // nil for work of none
	Level int64      // of work of no job: Shares.Level when it came
	Class core.Class // risen by how long it has waited
}

// Used is what stands for the use of a job.
func (s *Standing) Used(shares *Shares, now int64) int64 {
	if s.Job == nil {
		return s.Level
	}
	return shares.Used(s.Job, now, now)
}

func (s *shape) standing(c *claim, now int64) Standing {
	return Standing{s.job, c.level, s.class.Risen(time.Duration(now - c.since))}
}

// several reports whether work of several jobs waits.
func (l *Line) several() bool {
	var one *core.Job
	for _, s := range l.shapes {
		if s.job != nil && one != nil && s.job != one {
			return true
		}
		one = cmp.Or(s.job, one)
	}
	return false
}

// place is that of a claim in the order.
type place struct {
	used  int64 // 0 where all claims are of one job
	class core.Class
	order uint64
}

func (p *place) compare(o *place) int {
	return cmp.Or(cmp.Compare(p.used, o.used), -cmp.Compare(p.class, o.class), cmp.Compare(p.order, o.order))
}

// placing returns what says the places of claims while nothing changes.
func (l *Line) placing(now int64) func(s *shape, c *claim) place {
	several, used := l.several(), map[*core.Job]int64{}
	return func(s *shape, c *claim) place {
		of := s.standing(c, now)
		p := place{class: of.Class, order: c.order}
		if !several {
			return p
		}
		known := false
		if p.used, known = used[of.Job]; !known || of.Job == nil {
			p.used = of.Used(l.shares, now)
			used[of.Job] = p.used
		}
		return p
	}
}

// ordered is the shapes that wait, in the order of their oldest claims.
func (l *Line) ordered() []*shape {
	if l.classy == 0 && !l.several() {
		return l.shapes
	}
	place := l.placing(l.hooks.Now())
	list := slices.Clone(l.shapes)
	slices.SortFunc(list, func(a, b *shape) int {
		x, y := place(a, &a.claims[0]), place(b, &b.claims[0])
		return x.compare(&y)
	})
	return list
}

func byAge(a, b *shape) int { return cmp.Compare(a.claims[0].order, b.claims[0].order) }

// Reserves reports whether free CPU is kept for work that waits: for some that lacks nothing but CPU, and before which every
// task of the run queue has started that goes before it. Work of a job with less use than that of those tasks waits for none of them,
// nor does work of class High; work of class Low waits for all there are. Without this a steady stream of one-CPU tasks would starve it.
func (l *Line) Reserves() bool {
	pushed, popped := l.hooks.Queue()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.shapes, func(s *shape) bool { return s.need.CPU > 0 }) {
		return false
	}
	now := l.hooks.Now()
	for _, s := range l.ordered() {
		c := &s.claims[0]
		if s.need.CPU == 0 || c.work.Over() {
			continue
		}
		of := s.standing(c, now)
		above, less := l.hooks.Above(of)
		if above {
			return false // nor does what follows get CPU before that
		}
		before := c.queued // tasks that start before it
		switch {
		case less || l.classy > 0 && of.Class == core.High:
			before = 0
		case l.classy > 0 && of.Class == core.Low:
			before = pushed
		}
		if before <= popped && l.ledger.lacksOnlyCPU(&s.need, nil) {
			if keeps, _ := l.keepsFor(s, now); keeps {
				return true
			}
		}
	}
	return false
}

// asCPU is how much of the node n asks for, as CPU in thousandths: of what there is the least of for it. A node without CPU counts as one of
// one CPU.
func (l *Line) asCPU(n *Need) int64 {
	if l.node != nil {
		l = l.node
	}
	cpu := l.ledger.part(n, cmp.Or(l.ledger.total.CPU, Unit))
	if cpu == 0 && !n.IsCPU(0) {
		return 1 // else a job would have it for nothing
	}
	return cpu
}
