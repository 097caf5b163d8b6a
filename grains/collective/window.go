package collective

import (
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys/grains/internal/promise"
)

// outgoing are the parts of large vectors that a participant sends. A link bounds what waits for a node and refuses what is
// beyond it, and a vector has no bound: so only some parts are under way, and each that has arrived lets the next leave.
type outgoing[T Number] struct {
	// room is how many more parts may leave, or -1 while queue waits for one to arrive. The arrival that makes it 0 tells
	// the participant, which owns that room then.
	room  atomic.Int64
	queue []addressed[T]
}

// addressed is a part that waits for room.
type addressed[T Number] struct {
	to   int
	part part[T]
	how  manner
}

// underWay is how many parts of pieceSize each rank of a group has under way. In the worst case all ranks but one are on
// one node and send to the other one: up to 33 ranks, that is half of the 64 MiB that a link lets wait.
func underWay(size int) int64 { return int64(min(max(32/max(size-1, 1), 1), 8)) }

// sendLarge sends a part now, or when there is room.
func (s *participant[T]) sendLarge(a addressed[T]) {
	if len(s.large.queue) > 0 || s.large.room.Add(-1) < 0 {
		s.large.queue = append(s.large.queue, a)
		return
	}
	s.leave(a)
}

// leave sends a part that there is room for.
func (s *participant[T]) leave(a addressed[T]) {
	if a.how == lent {
		a.part.Vec = slices.Clone(a.part.Vec)
	}
	sent := s.d.take.Call(s.root.Context(), s.participants[a.to], a.part)
	lost := s.lost(a.to)
	promise.On(sent, func(err error) {
		lost(err)
		if s.large.room.Add(1) == 0 {
			s.tell(event{About: aboutRoom})
		}
	})
	promise.Hurry(s.root, sent)
}

// roomCame lets as many parts leave as there is room for. The event that it handles stands for the first's.
func (s *participant[T]) roomCame() {
	l := &s.large
	for len(l.queue) > 0 {
		a := l.queue[0]
		l.queue[0] = addressed[T]{}
		l.queue = l.queue[1:]
		s.leave(a)
		if len(l.queue) > 0 && l.room.Add(-1) < 0 {
			return
		}
	}
	s.complete()
}

// drop forgets the parts that have not left: the round has failed.
func (o *outgoing[T]) drop() {
	if len(o.queue) > 0 {
		o.queue = nil
		o.room.Add(1) // so that no arrival tells the participant, which may be gone by then
	}
}
