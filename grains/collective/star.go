package collective

import "slices"

// star is AllReduce for small vectors and few ranks: all ask rank 0, which answers when it has the vectors of all.
// That is one call for each rank but the first, where other ways take several messages a rank; a message costs the
// ranks' nodes more than the numbers in it, and with few ranks the first one is no bottleneck. The sum is made in the
// order of the ranks.
type star[T Number] struct {
	place
	op   Op
	vec  []T
	got  [][]T // by rank, at rank 0; empty once it is in vec
	next int   // the first rank whose vector is not in vec
	room []T   // of one that is
	left int
}

// starSize is the largest group that uses a star.
const starSize = 4

// newStar takes vec over.
func newStar[T Number](at place, op Op, vec []T) *star[T] {
	s := &star[T]{place: at, op: op, vec: vec, next: 1, left: 1}
	if at.rank == 0 {
		s.got, s.left = make([][]T, at.size), at.size-1
	}
	return s
}

func (s *star[T]) begin(o *out[T]) {
	if s.rank > 0 {
		o.ask(0, part[T]{Vec: s.vec})
	}
}

func (s *star[T]) take(h handed[T], o *out[T]) error {
	p := h.Part
	switch {
	case len(p.Vec) != len(s.vec) || p.Step != 0 || p.From < 0 || p.From >= s.size || p.From == s.rank || s.rank > 0 && p.From > 0:
		return badPart(p)
	case s.rank > 0:
		if s.left > 0 {
			s.vec, s.left = p.Vec, 0
		}
		return nil
	case s.left == 0:
		o.answer = &part[T]{Vec: slices.Clone(s.vec)}
		return nil
	case s.got[p.From] != nil:
		return nil // it came twice
	}
	s.got[p.From] = p.Vec
	if p.Vec == nil {
		s.got[p.From] = []T{}
	}
	for ; s.next < s.size && s.got[s.next] != nil; s.next++ {
		s.room = s.got[s.next]
		combine(s.op, s.vec, s.vec, s.room)
		s.got[s.next] = []T{}
	}
	if s.left--; s.left > 0 {
		return nil
	}
	for rank := 1; rank < s.size; rank++ {
		o.reply(rank, part[T]{Vec: s.vec})
	}
	return nil
}

func (s *star[T]) done() bool { return s.left == 0 }

// result is the caller's to change; rank 0 may be asked again for its own.
func (s *star[T]) result() outcome[T] {
	switch {
	case s.rank == 0 && s.room == nil:
		return outcome[T]{Vec: slices.Clone(s.vec)}
	case s.rank == 0:
		return outcome[T]{Vec: append(s.room[:0], s.vec...)}
	}
	return outcome[T]{Vec: s.vec}
}

func (s *star[T]) waits() (ranks []int) {
	switch {
	case s.left == 0:
	case s.rank > 0:
		return []int{0}
	default:
		for rank, v := range s.got {
			if rank > 0 && v == nil {
				ranks = append(ranks, rank)
			}
		}
	}
	return ranks
}
