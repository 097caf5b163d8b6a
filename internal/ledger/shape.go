package ledger

import (
	"slices"
	"strconv"

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

// enter appends the claim of w to its shape. The caller holds mu.
func (l *Line) enter(n *Need, w Work, c claim) {
	class, job := w.Class(), w.Job()
	key := shapeKey{job, n.String()}
	if class != core.Normal {
		key.name += ", class " + strconv.Itoa(int(class))
	}
	if n.Roams() {
		key.name += ", any bundle"
	}
	s := l.byKey[key]
	if s == nil {
		s = &shape{need: *n, class: class, job: job, key: key, turn: c.since}
		if l.byKey == nil {
			l.byKey = map[shapeKey]*shape{}
		}
		l.byKey[key] = s
		l.shapes = append(l.shapes, s)
		l.classes(s, +1)
	}
	if job == nil {
		c.level = l.shares.Level(c.since)
	}
	l.pushed++
	c.order = l.pushed
	s.claims = append(s.claims, c)
	l.waits(s, +1)
}

// waits counts claims of s that have begun to wait, or that wait no more. The caller holds mu.
func (l *Line) waits(s *shape, count int) {
	l.Waits.Add(int32(count))
	if l.node != nil && s.need.Roams() {
		l.node.Roaming.Add(int32(count))
	}
	if s.job != nil && count != 0 {
		l.shares.Waits(s.job, count, l.hooks.Now())
	}
}

// pop takes the oldest claim of s out.
func (l *Line) pop(s *shape) {
	s.claims[0] = claim{}
	s.claims = s.claims[1:]
	l.waits(s, -1)
	i := slices.Index(l.shapes, s)
	l.shapes = slices.Delete(l.shapes, i, i+1)
	if len(s.claims) == 0 {
		delete(l.byKey, s.key)
		l.classes(s, -1)
		return
	}
	at, _ := slices.BinarySearchFunc(l.shapes, s, byAge)
	l.shapes = slices.Insert(l.shapes, at, s)
}

// classes counts the shapes of other classes than Normal.
func (l *Line) classes(s *shape, n int) {
	if s.class != core.Normal {
		l.classy += n
	}
}

// Remove takes the waiting work out for which which is true, also of its bundles. What was kept for it goes to the rest.
func (l *Line) Remove(which func(Work) bool) (removed []Work) {
	for _, b := range l.all() {
		removed = append(removed, b.Remove(which)...)
	}
	own := l.remove(which)
	if len(own) > 0 {
		l.Serve()
	}
	return append(removed, own...)
}

func (l *Line) remove(which func(Work) bool) (removed []Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shapes = slices.DeleteFunc(l.shapes, func(s *shape) bool {
		before := len(s.claims)
		s.claims = slices.DeleteFunc(s.claims, func(c claim) bool {
			out := which(c.work)
			if out {
				removed = append(removed, c.work)
			}
			return out
		})
		l.waits(s, len(s.claims)-before)
		if len(s.claims) > 0 {
			return false
		}
		delete(l.byKey, s.key)
		l.classes(s, -1)
		return true
	})
	slices.SortFunc(l.shapes, byAge)
	return removed
}
