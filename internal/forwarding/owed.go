package forwarding

import (
	"cmp"
	"slices"
	"time"
)

const (
	// TellPause is how long a node that has told some of its debtors of a free CPU waits before it tells twice as
	// many.
	TellPause = time.Millisecond
	askPause  = 20 * time.Millisecond
	// LeftAlone is for how long a peer that refused gets no task, unless it tells something.
	LeftAlone = time.Second

	askFirst, askAll = 4, 16
)

// Owed is the peers that this node owes word of room, each once: those whose task it refused, and those that told
// it of tasks that wait.
//
//	refused, or asked ──► Add ──► Take, while a CPU is free and nothing here waits for it ──► told, and owed no more
//
// Higher classes go first, then who came first.
type Owed[P comparable] struct {
	list []debt[P]
	of   map[P]int // the class of each
}

type debt[P comparable] struct {
	to    P
	class int
}

// Len is how many are owed.
func (o *Owed[P]) Len() int { return len(o.list) }

// Add has p owed for work of the class. It keeps its place, but for work of a higher class.
func (o *Owed[P]) Add(p P, class int) {
	if was, ok := o.of[p]; ok {
		if was >= class {
			return
		}
		o.Remove(p)
	}
	if o.of == nil {
		o.of = map[P]int{}
	}
	o.of[p] = class
	at, _ := slices.BinarySearchFunc(o.list, class, func(d debt[P], class int) int {
		return cmp.Or(cmp.Compare(class, d.class), -1) // behind those of its class
	})
	o.list = slices.Insert(o.list, at, debt[P]{p, class})
}

// Remove has p owed no more.
func (o *Owed[P]) Remove(p P) {
	if _, ok := o.of[p]; ok {
		delete(o.of, p)
		o.list = slices.DeleteFunc(o.list, func(d debt[P]) bool { return d.to == p })
	}
}

// Take takes out the first that is owed.
func (o *Owed[P]) Take() (p P, ok bool) {
	if len(o.list) == 0 {
		return p, false
	}
	p = o.list[0].to
	delete(o.of, p)
	o.list = slices.Delete(o.list, 0, 1)
	return p, true
}

// Asks is how many of so many nodes a node asks in a round whose tasks wait and that knows of no room, and how long
// after the round before, or after it knew: of few all and soon, of many a few that are drawn, then twice as many.
func Asks(round, nodes int) (count int, after time.Duration) {
	switch {
	case nodes > askAll:
		return min(askFirst<<min(round, 20), nodes), askPause
	case round == 0:
		return nodes, TellPause
	}
	return nodes, askPause
}
