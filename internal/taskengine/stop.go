package taskengine

import (
	"slices"
	"sync"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// stops are the tasks in flight that were cancelled since their peers were last told. The record of a task has no
// room for the peer that has it: the forwarder looks through the flights, once for all tasks that were cancelled
// meanwhile.
type stops struct {
	mu      sync.Mutex // guards futures
	futures map[*core.Future]bool
}

func (s *stops) some() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.futures) > 0
}

func (s *stops) take() map[*core.Future]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.futures
	s.futures = nil
	return all
}

// stopped is called when a task in flight was cancelled.
func (x *exchange) stopped(c *core.Future) {
	x.stops.mu.Lock()
	if x.stops.futures == nil {
		x.stops.futures = map[*core.Future]bool{}
	}
	x.stops.futures[c] = true
	x.stops.mu.Unlock()
	x.wakeNow()
}

// sendStops tells the peers which of their tasks were cancelled. The caller holds the right to send, so that a task
// that was claimed for sending before it was cancelled has been entered by now.
func (x *exchange) sendStops() {
	all := x.stops.take()
	if len(all) == 0 {
		return
	}
	for _, p := range *x.peers.Load() {
		var slots []uint64
		p.flights.Each(func(slot uint64, f flight) {
			if all[f.task] {
				slots = append(slots, slot)
			}
		})
		for part := range slices.Chunk(slots, forwarding.MaxFrame) {
			var frame []byte
			for _, slot := range part {
				frame = taskwire.AppendSlot(frame, slot)
			}
			// A peer that takes no control frame is gone, or goes on until it is done; the future has settled either
			// way.
			_ = p.Send(wire.Control, wire.KindTaskCancel, frame)
			x.sent(p)
		}
	}
}
