package taskengine

import (
	"maps"
	"slices"
	"sort"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Most tasks ask for one CPU and go through the lock-free queue. The others wait here, one list per shape of request,
// so that a task whose GPU is taken holds up no task of another shape.

// maxZeroCPU bounds the tasks that run without asking for a CPU, which the count of CPUs does not bound. Tasks that
// wait in Get do not count, or a deep chain of them would stop for ever.
const maxZeroCPU = 10_000

// shaped is one waiting task that asks for other than one CPU.
type shaped struct {
	future *core.Future
	need   need
	stamp  uint64 // Queue.Pushed at submission: tasks queued before it go first
	order  uint64 // among the shaped
}

// shapes is guarded by Engine.mu.
type shapes struct {
	free  need // all but CPU, which is Engine.free
	list  map[string][]shaped
	count uint64 // tasks pushed so far
}

func (n need) key() string { return n.resources().String() }

func (n need) resources() raysys.Resources {
	r := raysys.Resources{CPU: float64(n.cpu) / 1000, GPU: float64(n.gpu) / 1000, Memory: n.memory}
	if len(n.custom) > 0 {
		r.Custom = map[string]float64{}
		for k, v := range n.custom {
			r.Custom[k] = float64(v) / 1000
		}
	}
	return r
}

// has reports whether all but the CPU of n is free.
func (s *shapes) has(n need) bool {
	if n.gpu > s.free.gpu || n.memory > s.free.memory {
		return false
	}
	for k, v := range n.custom {
		if v > s.free.custom[k] {
			return false
		}
	}
	return true
}

func (s *shapes) add(n need, sign int64) {
	s.free.gpu += sign * n.gpu
	s.free.memory += sign * n.memory
	for k, v := range n.custom {
		s.free.custom[k] += sign * v
	}
}

// heads returns the shapes by the age of their oldest task.
func (s *shapes) heads() []string {
	keys := slices.Collect(maps.Keys(s.list))
	sort.Slice(keys, func(i, j int) bool { return s.list[keys[i]][0].order < s.list[keys[j]][0].order })
	return keys
}

func (s *shapes) push(w shaped) {
	if s.list == nil {
		s.list = map[string][]shaped{}
	}
	s.count++
	w.order = s.count
	k := w.need.key()
	s.list[k] = append(s.list[k], w)
}

func (s *shapes) pop(key string) {
	l := s.list[key]
	l[0] = shaped{}
	if len(l) == 1 {
		delete(s.list, key)
	} else {
		s.list[key] = l[1:]
	}
}

func (s *shapes) drain() (all []shaped) {
	for _, l := range s.list {
		all = append(all, l...)
	}
	s.list = nil
	return all
}

// takeIf removes the waiting tasks that f accepts; the caller holds Engine.mu.
func (s *shapes) takeIf(f func(*core.Future) bool) (taken []shaped) {
	for k, l := range s.list {
		var left []shaped
		for _, w := range l {
			if f(w.future) {
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

// pushShaped queues a task that asks for other than one CPU.
func (e *Engine) pushShaped(c *core.Future, n need) {
	e.mu.Lock()
	e.shapes.push(shaped{future: c, need: n, stamp: e.queue.Pushed()})
	e.mu.Unlock()
	e.shaped.Add(1)
	e.startShaped()
}

// startShaped starts every waiting shaped task whose request is free, oldest first.
func (e *Engine) startShaped() {
	for {
		w, ok := e.takeShaped()
		if !ok {
			return
		}
		e.start(job{future: w.future, need: w.need})
	}
}

// takeShaped takes the oldest task whose request is free. What an older task lacks is kept from younger ones of other
// shapes, or a stream of small requests would starve a large one.
func (e *Engine) takeShaped() (shaped, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var owed need
	for _, k := range e.shapes.heads() {
		h := e.shapes.list[k][0]
		switch {
		case h.over(): // cancelled while it waited; its worker drops it
			h.need = need{}
		case h.need.cpu == 0 && e.zeroCPU.Load() >= maxZeroCPU:
			continue
		case h.need.shares(owed):
			continue
		case !e.shapes.has(h.need):
			owed.lack(h.need, &e.shapes)
			continue
		case !e.takeCPU(h.need.cpu):
			owed.cpu = 1
			continue
		}
		if h.need.cpu == 0 {
			e.zeroCPU.Add(1)
		}
		e.shapes.add(h.need, -1)
		e.shaped.Add(-1)
		e.shapes.pop(k)
		return h, true
	}
	return shaped{}, false
}

// over reports whether the task has ended without having started, or will end at the next check.
func (w *shaped) over() bool {
	if t := w.future.OwnTurn(); t != nil {
		return w.future.Settled() || t.Cancelled() != nil
	}
	return w.future.Settled() || w.future.Up().Cancelled() != nil
}

// lack adds to n the kinds of resources, other than CPU, that want finds too little of.
func (n *need) lack(want need, s *shapes) {
	if want.gpu > s.free.gpu {
		n.gpu = 1
	}
	if want.memory > s.free.memory {
		n.memory = 1
	}
	for k, v := range want.custom {
		if v > s.free.custom[k] {
			if n.custom == nil {
				n.custom = map[string]int64{}
			}
			n.custom[k] = 1
		}
	}
}

// shares reports whether n asks for a kind of resource that is owed to others.
func (n need) shares(owed need) bool {
	if n.cpu > 0 && owed.cpu > 0 || n.gpu > 0 && owed.gpu > 0 || n.memory > 0 && owed.memory > 0 {
		return true
	}
	for k := range owed.custom {
		if n.custom[k] > 0 {
			return true
		}
	}
	return false
}

// droppedShaped is called when a waiting shaped task was cancelled: CPUs may have been reserved for it.
func (e *Engine) droppedShaped() {
	e.startShaped()
	if e.waits() {
		e.wake()
	}
}

// endShaped frees the resources of a shaped task.
func (e *Engine) endShaped(n need) {
	e.mu.Lock()
	e.shapes.add(n, +1)
	e.mu.Unlock()
	if n.cpu == 0 {
		e.zeroCPU.Add(-1)
	}
	e.giveCPU(n.cpu)
}

// reserved reports whether free CPUs are being kept for a shaped task: one that lacks nothing but CPUs, and before
// which every task of the run queue has started. Without this a steady stream of small tasks would starve it.
func (e *Engine) reserved() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	popped := e.queue.Popped()
	for k := range e.shapes.list {
		if h := e.shapes.list[k][0]; h.stamp <= popped && h.need.cpu > 0 && !h.over() && e.shapes.has(h.need) {
			return true
		}
	}
	return false
}
