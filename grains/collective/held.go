package collective

import (
	"context"
	"slices"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/internal/promise"
	"github.com/raysys/raysys/internal/grainengine"
)

// In a small group the other ranks call rank 0's participant with their parts, and it holds the calls: it answers when it
// has the parts of all ranks. That is one message there and one back. A participant's turns
// never wait, so it keeps the calls.

// reply is the answer; without one the round has failed, and the asker hears why by itself.
type reply[T Number] struct {
	Part part[T]
	Has  bool
	Took bool // the asker's vector is rank 0's now: it did not travel
}

// held are the calls of a rank that wait for an answer: one, or more where it came twice, since it is not known
// which of them the rank waits for.
type held[T Number] struct {
	round uint64
	calls []heldCall[T]
}

// heldCall is one of them.
type heldCall[T Number] struct {
	*grains.Later[reply[T]]
	copied bool // its answer is, by Settle
}

// mostHeld bounds the calls of a rank.
const mostHeld = 8

func (h held[T]) answer(r reply[T]) {
	for _, c := range h.calls {
		_ = c.Settle(r) // one that has ended needs no answer
	}
}

// hold takes a part that asks for an answer.
func (s *participant[T]) hold(ctx context.Context, p part[T], call *grains.Later[reply[T]]) error {
	// Then accept finds an answer, or there is none.
	late := s.over != nil || p.Round < s.round || s.limit != nil && p.Round >= s.limit.Round
	if !late {
		s.keep(p, heldCall[T]{call, grainengine.AnswerIsCopied(ctx)})
	}
	again, err := s.accept(ctx, handed[T]{Part: p})
	switch {
	case err != nil:
		return err
	case again != nil:
		again.Round, again.From, again.Sign = p.Round, s.rank, p.Sign
		return call.Settle(reply[T]{Part: *again, Has: true, Took: true})
	case late:
		return call.Settle(reply[T]{})
	}
	return nil
}

func (s *participant[T]) keep(p part[T], call heldCall[T]) {
	h := s.held[p.From]
	if h.round != p.Round || len(h.calls) == mostHeld {
		h.answer(reply[T]{})
		h = held[T]{round: p.Round}
	}
	if s.held == nil {
		s.held = map[int]held[T]{}
	}
	h.calls = append(h.calls, call)
	s.held[p.From] = h
}

// reply answers the call of a rank, and reports whether there is one. The vector stays the participant's.
func (s *participant[T]) reply(to int, p part[T]) bool {
	h, ok := s.held[to]
	if !ok || h.round != p.Round {
		return false
	}
	delete(s.held, to)
	for _, c := range h.calls {
		r := reply[T]{Part: p, Has: true, Took: !c.copied}
		if r.Took {
			r.Part.Vec = slices.Clone(p.Vec)
		}
		_ = c.Settle(r)
	}
	return true
}

// release ends the calls that are held without an answer.
func (s *participant[T]) release() {
	for _, h := range s.held {
		h.answer(reply[T]{})
	}
	s.held = nil
}

// ask calls rank to's participant and takes the answer for a part of that rank.
func (s *participant[T]) ask(to int, p part[T]) {
	asked := s.d.hold.Call(s.root.Context(), s.participants[to], p)
	promise.On(asked, func(err error) {
		if err != nil {
			s.lost(to)(err)
		} else if r, err := asked.Get(s.root.Context()); err == nil && r.Has {
			_ = s.d.take.Tell(s.root.Context(), s.me, r.Part)
		}
	})
	promise.Hurry(s.root, asked)
}
