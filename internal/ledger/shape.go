package ledger

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// waitlist is the work that waits in a line, whose mu guards the list. Work begins in this order, where what it asks for is free (ADR 0055):
//
//	of several jobs   the work of the job with the least use of the node for its weight
//	of one job        the highest class; work rises by a class for each core.AgeStep that it has waited
//	of one class      the oldest
//
// Work of no job has, in place of a use, the level at which it came. The use of jobs grows past that level, so that such work neither
// starves nor holds up more than what came after it.
type waitlist struct {
	l      *Line
	shapes []*shape            // by the age of their oldest claim
	byKey  map[shapeKey]*shape // the same
	pushed uint64              // claims so far
	classy int                 // shapes of another class than Normal
}

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

// enter appends the claim of w to its shape.
func (q *waitlist) enter(n *Need, w Work, c claim) {
	class, job := w.Class(), w.Job()
	key := shapeKey{job, n.String()}
	if class != core.Normal {
		key.name += ", class " + strconv.Itoa(int(class))
	}
	if n.Roams() {
		key.name += ", any bundle"
	}
	s := q.byKey[key]
	if s == nil {
		s = &shape{need: *n, class: class, job: job, key: key, turn: c.since}
		if q.byKey == nil {
			q.byKey = map[shapeKey]*shape{}
		}
		q.byKey[key] = s
		q.shapes = append(q.shapes, s)
		q.classes(s, +1)
	}
	if job == nil {
		c.level = q.l.shares.Level(c.since)
	}
	q.pushed++
	c.order = q.pushed
	s.claims = append(s.claims, c)
	q.waits(s, +1)
}

// waits counts claims of s that have begun to wait, or that wait no more.
func (q *waitlist) waits(s *shape, count int) {
	q.l.Waits.Add(int32(count))
	if q.l.node != nil && s.need.Roams() {
		q.l.node.Roaming.Add(int32(count))
	}
	if s.job != nil && count != 0 {
		q.l.shares.Waits(s.job, count, q.l.hooks.Now())
	}
}

// pop takes the oldest claim of s out.
func (q *waitlist) pop(s *shape) {
	s.claims[0] = claim{}
	s.claims = s.claims[1:]
	q.waits(s, -1)
	i := slices.Index(q.shapes, s)
	q.shapes = slices.Delete(q.shapes, i, i+1)
	if len(s.claims) == 0 {
		delete(q.byKey, s.key)
		q.classes(s, -1)
		return
	}
	at, _ := slices.BinarySearchFunc(q.shapes, s, byAge)
	q.shapes = slices.Insert(q.shapes, at, s)
}

// classes counts the shapes of other classes than Normal.
func (q *waitlist) classes(s *shape, n int) {
	if s.class != core.Normal {
		q.classy += n
	}
}

// several reports whether work of several jobs waits.
func (q *waitlist) several() bool {
	var one *core.Job
	for _, s := range q.shapes {
		if s.job != nil && one != nil && s.job != one {
			return true
		}
		one = cmp.Or(s.job, one)
	}
	return false
}

// placing returns what says the places of claims while nothing changes.
func (q *waitlist) placing(now int64) func(s *shape, c *claim) place {
	several, used := q.several(), map[*core.Job]int64{}
	return func(s *shape, c *claim) place {
		of := s.standing(c, now)
		p := place{class: of.Class, order: c.order}
		if !several {
			return p
		}
		known := false
		if p.used, known = used[of.Job]; !known || of.Job == nil {
			p.used = of.Used(q.l.shares, now)
			used[of.Job] = p.used
		}
		return p
	}
}

// ordered is the shapes that wait, in the order of their oldest claims.
func (q *waitlist) ordered() []*shape {
	if q.classy == 0 && !q.several() {
		return q.shapes
	}
	place := q.placing(q.l.hooks.Now())
	list := slices.Clone(q.shapes)
	slices.SortFunc(list, func(a, b *shape) int {
		x, y := place(a, &a.claims[0]), place(b, &b.claims[0])
		return x.compare(&y)
	})
	return list
}

// turns lists what waits, and is not over, in the order in which it would begin if all asked for the same. The use of a job grows with each.
func (q *waitlist) turns(now int64) (list []turn) {
	place := q.placing(now)
	for _, s := range q.shapes {
		for i := range s.claims {
			if c := &s.claims[i]; !c.work.Over() {
				list = append(list, turn{c, s, place(s, c)})
			}
		}
	}
	sort := func() {
		slices.SortFunc(list, func(a, b turn) int { return a.place.compare(&b.place) })
	}
	sort()
	if q.several() {
		grown := map[*core.Job]int64{}
		for i := range list {
			if t := &list[i]; t.shape.job != nil {
				t.used += grown[t.shape.job]
				grown[t.shape.job] += q.l.shares.Expects(t.shape.job, q.l.asCPU(&t.shape.need))
			}
		}
		sort()
	}
	return list
}

func byAge(a, b *shape) int { return cmp.Compare(a.claims[0].order, b.claims[0].order) }
