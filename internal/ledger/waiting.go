package ledger

import (
	"fmt"
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

// turn is a claim with its place when its turn comes.
type turn struct {
	*claim
	shape *shape
	place
}
