package taskengine

import (
	"sync"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// heldTasks are the tasks that are held: no queue has them, and a question where one waits looks here. They are in shards, since
// all CPUs hold tasks.
type heldTasks [heldShards]heldShard

const heldShards = 64

type heldShard struct {
	mu    sync.Mutex
	since map[*core.Future]int64 // on the runtime's clock
	_     [40]byte
}

func (h *heldTasks) shard(c *core.Future) *heldShard {
	return &h[uintptr(unsafe.Pointer(c))>>7%heldShards]
}

// hold counts a task that is held from now on.
func (e *Engine) hold(c *core.Future) {
	e.unqueued.Add(1)
	now := e.now()
	s := e.held.shard(c)
	s.mu.Lock()
	if s.since == nil {
		s.since = map[*core.Future]int64{}
	}
	s.since[c] = now
	s.mu.Unlock()
}

// unhold is the counterpart of hold.
func (e *Engine) unhold(c *core.Future) {
	e.unqueued.Add(-1)
	s := e.held.shard(c)
	s.mu.Lock()
	delete(s.since, c)
	s.mu.Unlock()
}

// each calls f with the tasks that are held, and since when.
func (h *heldTasks) each(f func(c *core.Future, since int64)) {
	for i := range h {
		s := &h[i]
		s.mu.Lock()
		for c, since := range s.since {
			f(c, since)
		}
		s.mu.Unlock()
	}
}
