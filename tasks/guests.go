package tasks

import (
	"sync"

	"github.com/raysys/raysys"
)

// guestTable finds the tasks of one peer that are here by their slots, for cancellation. Slots are small numbers that
// the peer uses again, so the table is a list.
type guestTable struct {
	mu    sync.Mutex // guards the rest
	list  []arrival
	early map[uint64]bool // cancelled before they came: control frames overtake requests
}

// maxEarly bounds the cancellations that wait for their task. One that crossed its result waits for ever, so the table
// is emptied when it is full: what is lost then is that a task which nobody waits for runs.
const maxEarly = 4096

// put enters a guest, and reports whether it was cancelled before it came.
func (t *guestTable) put(g arrival) (cancelled bool) {
	_, slot := g.home()
	i := int(slot & (1<<32 - 1)) // below maxFlights, see HandleTasks
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) <= i {
		t.list = append(t.list, nil)
	}
	if !g.answerTold() { // its deadline may have passed already
		t.list[i] = g
	}
	if cancelled = t.early[slot]; cancelled {
		delete(t.early, slot)
	}
	return cancelled
}

// remove takes it out, unless another has its place.
func (t *guestTable) remove(g arrival) {
	_, slot := g.home()
	i := slot & (1<<32 - 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < uint64(len(t.list)) && t.list[i] == g {
		t.list[i] = nil
	}
}

// cancel returns the guest of the slot, or remembers it for the task that is still on its way.
func (t *guestTable) cancel(slot uint64) arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slot & (1<<32 - 1); i < uint64(len(t.list)) && t.list[i] != nil {
		if _, s := t.list[i].home(); s == slot {
			return t.list[i]
		}
	}
	if len(t.early) >= maxEarly {
		clear(t.early)
	}
	if t.early == nil {
		t.early = map[uint64]bool{}
	}
	t.early[slot] = true
	return nil
}

// takeIf removes the waiting tasks that f accepts; the caller holds Engine.mu.
func (s *shapes) takeIf(f func(*raysys.Core) bool) (taken []shaped) {
	for k, l := range s.list {
		var left []shaped
		for _, w := range l {
			if f(w.core) {
				taken = append(taken, w)
			} else {
				left = append(left, w)
			}
		}
		if len(left) == 0 {
			delete(s.list, k)
		} else {
			s.list[k] = left
		}
	}
	return taken
}
