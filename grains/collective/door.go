package collective

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
)

// door is where a rank of a small group calls rank 0's seat when it wants an answer that the seat does not have yet. A
// seat's turns never wait; the door's does, and so holds the call until the seat has the answer: one message there and
// one back. There is a door for each rank that asks, since one holds one call. Rank 0 places them beside its seat before
// anybody can ask.
type door struct{}

// knock is a part for the seat behind the door.
type knock[T Number] struct {
	Seat string
	Part part[T]
}

// reply is the answer; without one the round has failed, and the asker hears why by itself.
type reply[T Number] struct {
	Part part[T]
	Has  bool
}

func (d *definition[T]) through(ctx context.Context, k knock[T]) (reply[T], error) {
	h, err := d.hold.Call(ctx, d.seats.Get(k.Seat), k.Part).Get(ctx)
	if err != nil {
		return reply[T]{}, err
	}
	return h.Ref().Get(ctx)
}

func doorKey(seat string, rank int) string { return seat + "/" + string(rune('0'+rank)) }

// open places the doors of a small group's first rank.
func (d *definition[T]) open(ctx context.Context, seat string, at place) error {
	if at.rank != 0 || at.size > starSize {
		return nil
	}
	var refs []grains.Done
	for rank := 1; rank < at.size; rank++ {
		refs = append(refs, d.stand.Call(ctx, d.doors.Get(doorKey(seat, rank))))
	}
	_, err := raysys.GetAll(ctx, refs).Values()
	return err
}

// held is a call that waits behind a door.
type held[T Number] struct {
	round  uint64
	answer *promise.Promise[reply[T]]
}

// hold takes a part that asks for an answer.
func (s *seat[T]) hold(ctx context.Context, p part[T]) (raysys.Handle[reply[T]], error) {
	h := held[T]{p.Round, promise.New[reply[T]](s.root, "answer of "+s.group)}
	switch {
	case s.over != nil || p.Round < s.round:
		defer h.answer.Settle(reply[T]{}) // where accept finds no answer
	default:
		if s.held == nil {
			s.held = map[int]held[T]{}
		}
		if before, ok := s.held[p.From]; ok {
			before.answer.Settle(reply[T]{}) // the call was repeated
		}
		s.held[p.From] = h
	}
	again, err := s.accept(ctx, handed[T]{Part: p})
	if err != nil {
		return raysys.Handle[reply[T]]{}, err
	}
	if again != nil {
		again.Round, again.From, again.Sign = p.Round, s.rank, p.Sign
		h.answer.Settle(reply[T]{*again, true})
	}
	return h.answer.Handle(), nil
}

// reply answers the call of a rank, and reports whether there is one.
func (s *seat[T]) reply(to int, p part[T]) bool {
	h, ok := s.held[to]
	if !ok || h.round != p.Round {
		return false
	}
	delete(s.held, to)
	h.answer.Settle(reply[T]{p, true})
	return true
}

// release ends the calls behind the doors without an answer.
func (s *seat[T]) release() {
	for _, h := range s.held {
		h.answer.Settle(reply[T]{})
	}
	s.held = nil
}

// ask calls rank to's seat, through the door, and takes the answer for a part of that rank.
func (s *seat[T]) ask(to int, p part[T]) {
	key := s.seats[to].ID().Key
	asked := s.d.pass.Call(s.root.Context(), s.d.doors.Get(doorKey(key, s.rank)), knock[T]{Seat: key, Part: p})
	promise.On(asked, func(err error) {
		if err != nil {
			s.lost(to)(err)
		} else if r, err := asked.Get(s.root.Context()); err == nil && r.Has {
			_ = s.d.take.Tell(s.root.Context(), s.me, r.Part)
		}
	})
	promise.Hurry(s.root, asked)
}
