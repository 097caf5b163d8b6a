package core

import "sync/atomic"

// Waiting is a vertex of the wait graph: a blocked turn, a future whose work cannot start yet, or one that another
// node computes. It can go on when Need of its edges can.
type Waiting struct {
	ID     TaskID // of this wait: the next wait of the same turn has another
	Name   string // of a turn, "" for a future
	Queued bool   // a grain call behind blocked turns, which may give way
	Far    bool   // a future that another node computes: that node knows what it waits for
	Need   int
	Free   int   // how many of its edges depend on no other Waiting
	On     []int // the other edges, as indices in the list

	turn   *Turn
	future *Future
	live   bool
	from   int // the place before it on the way from the first
}

// WaitsFor lists up to limit of the futures that t waits for and that have not settled, and counts them; 0 where it waits for nothing.
// It may be out of date once it returns.
func WaitsFor(t *Turn, limit int) (on []*Future, count int) {
	b := t.base.block.Load()
	if b == nil {
		return nil, 0
	}
	for _, c := range b.on {
		if c == nil || c.Settled() {
			continue
		}
		if count++; count <= limit {
			on = append(on, c)
		}
	}
	return on, count
}

// Future is what a Waiting that Waits made, and that is Far or Held, waits for.
func (w *Waiting) Future() *Future { return w.future }

// serials numbers the waits that other nodes asked for.
var serials atomic.Uint64

func (b *Blocked) id() TaskID {
	if b.serial.Load() == 0 {
		b.serial.CompareAndSwap(0, serials.Add(1))
	}
	return TaskID{Lo: b.serial.Load()}
}

// Waits lists what t waits for as far as this node knows: t is the first, and the list is empty when t does not wait.
// far reports what another node computes.
func Waits(t *Turn, far func(*Future) bool) []Waiting {
	s := search{far: far}
	s.from(t)
	return s.waits
}

// WaitsOf is Waits for what computes c; the list is empty when it depends on no blocked turn.
func WaitsOf(c *Future, far func(*Future) bool) []Waiting {
	s := search{far: far}
	s.begin()
	s.coreWait(c)
	s.walk()
	return s.waits
}

// Stuck reports whether the first of waits can never go on. It marks the vertices that can (live).
func Stuck(waits []Waiting) bool {
	if len(waits) == 0 {
		return false
	}
	for i := range waits {
		waits[i].live = false
	}
	// The vertices that a vertex waits for mostly come after it, so few rounds are needed when they go backwards.
	for changed := true; changed; {
		changed = false
		for i := len(waits) - 1; i >= 0; i-- {
			n := &waits[i]
			if n.live {
				continue
			}
			can := n.Free
			for _, j := range n.On {
				if waits[j].live {
					can++
				}
			}
			if can >= n.Need {
				n.live, changed = true, true
			}
		}
	}
	return !waits[0].live
}

// WayBack returns the turns of the shortest way from the first of waits back to it, over stuck vertices, and the
// indices of the calls on it that may give way, nearest first. The caller has called Stuck.
func WayBack(waits []Waiting) (chain []string, queued []int) {
	for i := range waits {
		waits[i].from = unblocked
	}
	way := []int{0}
	for k := 0; k < len(way); k++ {
		i := way[k]
		for _, j := range waits[i].On {
			switch {
			case j == 0:
				for ; i != unblocked; i = waits[i].from {
					switch n := &waits[i]; {
					case n.Name != "":
						chain = append([]string{n.Name}, chain...)
					case n.Queued:
						queued = append([]int{i}, queued...)
					}
				}
				return append(chain, waits[0].Name), queued
			case !waits[j].live && waits[j].from == unblocked:
				waits[j].from = i
				way = append(way, j)
			}
		}
	}
	return nil, nil
}

// StuckWith lists the indices of the stuck vertices that the first of waits depends on. The caller has called Stuck.
func StuckWith(waits []Waiting) []int {
	seen := make([]bool, len(waits))
	all := []int{0}
	seen[0] = true
	for k := 0; k < len(all); k++ {
		for _, j := range waits[all[k]].On {
			if !waits[j].live && !seen[j] {
				seen[j] = true
				all = append(all, j)
			}
		}
	}
	return all
}
