package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/internal/promise"
	"github.com/raysys/raysys/internal/core"
)

// offers is what a Member has for the others to read in AllReduces of large vectors.
type offers[T Number] struct {
	// own has the rank's parts of the others' chunks, and in the place of its own chunk their sum. It is used again: memory
	// that is new costs ten times the copy into it.
	own []T
	sum raysys.Ref[[]T] // of the last AllReduce: others may read it until they are in the next one
}

// byObjects is AllReduce of a large vector, in two rounds of an exchange. The vector is cut into one chunk per rank. A
// rank puts its part of each other rank's chunk, and gives that rank the reference. It adds up the parts of its own chunk
// where they are, and puts the sum, which all others read. So numbers go from the memory of one rank to that of another:
// past the participants, and without being encoded or decoded.
func (m *Member[T]) byObjects(ctx context.Context, req request[T]) (o outcome[T], err error) {
	ctx, cancel := context.WithTimeout(ctx, m.d.patience)
	defer cancel()
	l, vec := m.offers, req.Vec
	m.offers = offers[T]{} // after an error others may still read it
	if len(l.own) != len(vec) || m.root.Strict() {
		l.own = make([]T, len(vec))
	}
	parts := make([]raysys.Ref[[]T], m.at.size)
	for rank := range m.at.others() {
		part := chunk(m.at, l.own, rank)
		copy(part, chunk(m.at, vec, rank))
		if parts[rank], err = m.put(ctx, part); err != nil {
			return o, err
		}
	}
	got, err := m.exchange(ctx, req, parts)
	if err != nil {
		return o, err
	}
	promise.Drop(m.root, l.sum) // all ranks have come to this operation
	acc, sum := chunk(m.at, vec, m.at.rank), chunk(m.at, l.own, m.at.rank)
	for rank := range m.at.others() {
		if err = m.read(ctx, req, got[rank], rank, func(v []T) { combine(req.Sign.Op, sum, acc, v) }); err != nil {
			return o, err
		}
		acc = sum
	}
	if l.sum, err = m.put(ctx, sum); err != nil {
		return o, err
	}
	if got, err = m.exchange(ctx, req, slices.Repeat([]raysys.Ref[[]T]{l.sum}, m.at.size)); err != nil {
		return o, err
	}
	for rank := range m.at.others() { // whose sum has the rank's part
		promise.Drop(m.root, parts[rank])
	}
	o.Vec = make([]T, len(vec))
	copy(chunk(m.at, o.Vec, m.at.rank), sum)
	for rank := range m.at.others() {
		if err = m.read(ctx, req, got[rank], rank, func(v []T) { copy(chunk(m.at, o.Vec, rank), v) }); err != nil {
			return outcome[T]{}, err
		}
	}
	m.offers = l
	return o, nil
}

// put makes an object of a chunk.
func (m *Member[T]) put(ctx context.Context, chunk []T) (raysys.Ref[[]T], error) {
	ref := raysys.Put(ctx, chunk)
	if _, err := ref.Get(ctx); err != nil {
		return ref, m.fail(reasonOf(err), "offering a chunk: "+err.Error())
	}
	return ref, nil
}

// exchange gives each other rank the reference under its number, and returns what came from each.
func (m *Member[T]) exchange(ctx context.Context, req request[T], give []raysys.Ref[[]T]) ([]raysys.Handle[[]T], error) {
	req.Refs = make([]raysys.Handle[[]T], len(give))
	for rank, ref := range give {
		req.Refs[rank] = ref.Handle()
	}
	o, err := m.next(ctx, req)
	return o.Refs, err
}

// next takes part in the operation's next round.
func (m *Member[T]) next(ctx context.Context, req request[T]) (outcome[T], error) {
	end, _ := ctx.Deadline()
	req.Vec, req.Round, req.Patience = nil, m.round.Load(), max(time.Until(end), 0)
	return m.takePart(ctx, req)
}

// read calls f with the chunk that another rank offers.
func (m *Member[T]) read(ctx context.Context, req request[T], h raysys.Handle[[]T], from int, f func([]T)) error {
	err := core.ViewSent(ctx, core.Ref[[]T](h.Ref()), func(v []T) error {
		f(v)
		return nil
	})
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("reading a chunk of rank %d: %v", from, err)
	if why := reasonOf(err); why != Lost || errors.Is(err, raysys.ErrNoRuntime) {
		return m.fail(why, text)
	}
	req.Why, req.Text = Lost, text // the coordinator says which rank that was
	_, err = m.next(ctx, req)
	return err
}

// chunk is the part of v that is put together at a rank.
func chunk[T Number](at place, v []T, rank int) []T {
	lo, hi := len(v)*rank/at.size, len(v)*(rank+1)/at.size
	return v[lo:hi:hi]
}

// exchange brings each rank a reference from every other one, straight from its maker.
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
