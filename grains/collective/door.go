package collective

import (
	"context"
	"slices"

	"github.com/raysys/raysys/grains/internal/promise"
)

// The door of rank 0's seat is a method: in a small group a rank calls it with its part and is answered when the seat has
// everybody's. That is one message there and one back. A seat's turns never wait, so it keeps the calls.

// reply is the answer; without one the round has failed, and the asker hears why by itself.
type reply[T Number] struct {
	Part part[T]
	Has  bool
	Took bool // the asker's vector is rank 0's now: it did not travel
}

// held is a call that waits at the door.
type held[T Number] struct {
	round uint64
	call  *promise.Later[reply[T]]
}

// hold takes a part that asks for an answer.
func (s *seat[T]) hold(ctx context.Context, p part[T]) (none reply[T], err error) {
	call, err := promise.LaterOf[reply[T]](ctx)
	if err != nil {
		return none, err
	}
	late := s.over != nil || p.Round < s.round // accept finds an answer, or there is none
	if !late {
		if s.held == nil {
			s.held = map[int]held[T]{}
		}
		if before, ok := s.held[p.From]; ok {
			before.call.Answer(none) // the call was repeated
		}
		s.held[p.From] = held[T]{p.Round, call}
	}
	again, err := s.accept(ctx, handed[T]{Part: p})
	switch {
	case err != nil:
		return none, err
	case again != nil:
		again.Round, again.From, again.Sign = p.Round, s.rank, p.Sign
		return reply[T]{Part: *again, Has: true, Took: true}, nil
	case late:
		return none, nil
	}
	return none, promise.ErrLater
}

// reply answers the call of a rank, and reports whether there is one. The vector stays the seat's.
func (s *seat[T]) reply(to int, p part[T]) bool {
	h, ok := s.held[to]
	if !ok || h.round != p.Round {
		return false
	}
	delete(s.held, to)
	near := !h.call.Copies()
	if near {
		p.Vec = slices.Clone(p.Vec)
	}
	h.call.Answer(reply[T]{Part: p, Has: true, Took: near})
	return true
}

// release ends the calls at the door without an answer.
func (s *seat[T]) release() {
	for _, h := range s.held {
		h.call.Answer(reply[T]{})
	}
	s.held = nil
}

// ask calls rank to's seat and takes the answer for a part of that rank.
func (s *seat[T]) ask(to int, p part[T]) {
	asked := s.d.hold.Call(s.root.Context(), s.seats[to], p)
	promise.On(asked, func(err error) {
		if err != nil {
			s.lost(to)(err)
		} else if r, err := asked.Get(s.root.Context()); err == nil && r.Has {
			_ = s.d.take.Tell(s.root.Context(), s.me, r.Part)
		}
	})
	promise.Hurry(s.root, asked)
}
