package taskengine

import (
	"slices"
	"sync"
	"sync/atomic"
)

// inboundTable finds the tasks of one peer that are here by their slots, for cancellation. Slots are small numbers that
// the peer uses again, so the table is a list of pages, which are read without a lock.
type inboundTable struct {
	pages atomic.Pointer[[]*inboundPage]
	some  atomic.Int32 // length of early

	mu    sync.Mutex      // guards early, and that pages are added
	early map[uint64]bool // cancelled before they came: control frames overtake requests
}

const pageSize = 1 << 10

type inboundPage [pageSize]atomic.Pointer[inboundTask]

// maxEarly bounds the cancellations that wait for their task. A cancellation that crossed its result would stay for
// ever, so the table is emptied when it is full. A task that was cancelled then runs, though its outcome is not
// needed.
const maxEarly = 4096

// at returns the cell of a slot, nil when there was never an inbound task.
func (t *inboundTable) at(slot uint64) *atomic.Pointer[inboundTask] {
	i := slot & (1<<32 - 1)
	if pages := t.pages.Load(); pages != nil && i/pageSize < uint64(len(*pages)) {
		return &(*pages)[i/pageSize][i%pageSize]
	}
	return nil
}

// grow makes the pages up to that of a slot, which is below forwarding.MaxFlights, see HandleTasks.
func (t *inboundTable) grow(slot uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pages []*inboundPage
	if old := t.pages.Load(); old != nil {
		pages = *old
	}
	pages = slices.Clone(pages)
	for uint64(len(pages)) <= slot&(1<<32-1)/pageSize {
		pages = append(pages, new(inboundPage))
	}
	t.pages.Store(&pages)
}

// put enters an inbound task, and reports whether it was cancelled before it came.
func (t *inboundTable) put(a *inboundTask) (cancelled bool) {
	slot := a.slot
	cell := t.at(slot)
	if cell == nil {
		t.grow(slot)
		cell = t.at(slot)
	}
	cell.Store(a)
	if a.answered.Load() { // its deadline may have passed already
		cell.CompareAndSwap(a, nil)
	}
	if t.some.Load() == 0 { // cancel counts before it looks at the cell again
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancelled = t.early[slot]; cancelled {
		delete(t.early, slot)
		t.some.Store(int32(len(t.early)))
	}
	return cancelled
}

// remove takes it out, unless another has its cell.
func (t *inboundTable) remove(a *inboundTask) {
	if cell := t.at(a.slot); cell != nil {
		cell.CompareAndSwap(a, nil)
	}
}

// cancel returns the inbound task of the slot, or remembers it for the task that is still on its way.
func (t *inboundTable) cancel(slot uint64) *inboundTask {
	if a := t.find(slot); a != nil {
		return a
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.early) >= maxEarly {
		clear(t.early)
	}
	if t.early == nil {
		t.early = map[uint64]bool{}
	}
	t.early[slot] = true
	t.some.Store(int32(len(t.early)))
	if a := t.find(slot); a != nil { // it came just now, and may have looked before that
		delete(t.early, slot)
		t.some.Store(int32(len(t.early)))
		return a
	}
	return nil
}

func (t *inboundTable) find(slot uint64) *inboundTask {
	cell := t.at(slot)
	if cell == nil {
		return nil
	}
	if a := cell.Load(); a != nil && a.slot == slot {
		return a
	}
	return nil
}

// each calls f with the inbound tasks that are in the table.
func (t *inboundTable) each(f func(*inboundTask)) {
	pages := t.pages.Load()
	if pages == nil {
		return
	}
	for _, page := range *pages {
		for i := range page {
			if a := page[i].Load(); a != nil {
				f(a)
			}
		}
	}
}
