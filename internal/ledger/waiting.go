package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// maxNamed bounds the work that an explanation names.
const maxNamed = 4

// Explain says where the work waits, but for the name of the node. Work before it is named that has a method String.
func (w *Waiting) Explain(now int64) raysys.Waiting {
	out := raysys.Waiting{
		Stage: core.StageLine, For: "what others hold of this node", Waited: max(time.Duration(now-w.Since), 0),
		Asks: raysys.Resources(w.Need.Resources()), Short: w.Short, Before: len(w.Before),
	}
	switch {
	case len(w.Short) > 0 && w.Bundle.Group != "":
		out.For = fmt.Sprintf("what others hold of bundle %d of its placement group", w.Bundle.Index)
	case len(w.Short) > 0:
	case w.Queue:
		out.For = "tasks of one CPU that go before it"
	default:
		out.For = "work before it, for which what it asks for is kept"
	}
	for _, b := range w.Before[:min(len(w.Before), maxNamed)] {
		if name, ok := b.(fmt.Stringer); ok {
			out.First = append(out.First, name.String())
		}
	}
	return out
}

// Waiting is one piece of work that waits in a line.
type Waiting struct {
	Work   Work
	Need   Need
	Bundle core.Bundle // whose line it is; zero for the node's
	Since  int64       // by Hooks.Now
	Before []Work      // that goes before it: of a job with less use, of a higher class, or older
	Short  []string    // of what too little is free, a line each
	Queue  bool        // tasks of the run queue that go before it take the CPU first
}

// Waiting lists the work for which which is true, in the line and in those of the bundles.
func (l *Line) Waiting(which func(Work) bool) (list []Waiting) {
	for _, b := range l.all() {
		for _, w := range b.Line.waiting(which) {
			w.Bundle = b.name
			list = append(list, w)
		}
	}
	return append(list, l.waiting(which)...)
}

// EachWaiting shows the work that waits, in the line and in those of the bundles, and since when, in no order. f is called under the lock.
func EachWaiting(l *Line, f func(w Work, since int64)) {
	for _, b := range l.all() {
		eachClaim(&b.Line, f)
	}
	eachClaim(l, f)
}

func eachClaim(l *Line, f func(w Work, since int64)) {
	if l.Waits.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		for i := range s.claims {
			if c := &s.claims[i]; !c.work.Over() {
				f(c.work, c.since)
			}
		}
	}
}

func (l *Line) waiting(which func(Work) bool) (list []Waiting) {
	if l.Waits.Load() == 0 {
		return nil
	}
	_, popped := l.hooks.Queue()
	now := l.hooks.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var before []Work
	for _, t := range l.turns(now) {
		if which(t.work) {
			w := Waiting{Work: t.work, Need: t.shape.need, Since: t.since, Before: before[:len(before):len(before)], Short: l.ledger.Short(t.shape.need)}
			if t.shape.need.CPU > 0 {
				above, less := l.hooks.Above(t.shape.standing(t.claim, now))
				w.Queue = above || !less && t.queued > popped
			}
			list = append(list, w)
		}
		before = append(before, t.work)
	}
	return list
}

// turn is a claim with its place when its turn comes.
type turn struct {
	*claim
	shape *shape
	place
}

// turns lists what waits, and is not over, in the order in which it would begin if all asked for the same. The use of a job grows with each.
func (l *Line) turns(now int64) (list []turn) {
	place := l.placing(now)
	for _, s := range l.shapes {
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
	if l.several() {
		grown := map[*core.Job]int64{}
		for i := range list {
			if t := &list[i]; t.shape.job != nil {
				t.used += grown[t.shape.job]
				grown[t.shape.job] += l.shares.Expects(t.shape.job, l.asCPU(&t.shape.need))
			}
		}
		sort()
	}
	return list
}

// Short says, a line each, of what n asks for too little is free.
func (l *Ledger) Short(n Need) []string {
	now, ever := 0, 0
	for i := range l.devices {
		if l.devices[i].could(&n) {
			ever++
		}
		if l.devices[i].can(&n) {
			now++
		}
	}
	return core.Short(n.Resources(), l.Free().Resources(), l.total.Resources(), now, ever)
}
