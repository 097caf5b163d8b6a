package collective

import "github.com/raysys/raysys"

// exchange brings each rank a reference from every other one, straight from its maker. See Member.byObjects.
type exchange[T Number] struct {
	place
	give, got []raysys.Handle[[]T] // by rank
	left      int
}

func newExchange[T Number](at place, give []raysys.Handle[[]T]) *exchange[T] {
	return &exchange[T]{place: at, give: give, got: make([]raysys.Handle[[]T], at.size), left: at.size - 1}
}

func (x *exchange[T]) begin(o *out[T]) {
	for rank := range x.others() {
		o.sendRef(rank, part[T]{}, x.give[rank])
	}
}

func (x *exchange[T]) take(h handed[T], _ *out[T]) error {
	from := h.Part.From
	if from < 0 || from >= x.size || from == x.rank || h.Part.Step != 0 || h.Ref.Ref().IsZero() {
		return badPart(h.Part)
	}
	if x.got[from].Ref().IsZero() { // else it came twice
		x.got[from] = h.Ref
		x.left--
	}
	return nil
}

func (x *exchange[T]) done() bool { return x.left == 0 }

func (x *exchange[T]) result() outcome[T] { return outcome[T]{Refs: x.got} }

func (x *exchange[T]) waits() (ranks []int) {
	for rank := range x.others() {
		if x.got[rank].Ref().IsZero() {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
