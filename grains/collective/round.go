package collective

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/raysys/raysys"
)

// verb is what a round does.
type verb uint8

const (
	verbAllReduce verb = iota + 1
	verbReduce
	verbBroadcast
)

func (v verb) String() string {
	switch v {
	case verbAllReduce:
		return "AllReduce"
	case verbReduce:
		return "Reduce"
	case verbBroadcast:
		return "Broadcast"
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// sign is what all ranks of a round must agree on.
type sign struct {
	Verb verb
	Op   Op
	Root int
	Len  int // in elements; -1 for Broadcast, where only the root knows it
}

func (s sign) String() string {
	switch s.Verb {
	case verbAllReduce:
		return fmt.Sprintf("AllReduce(%v) of %d elements", s.Op, s.Len)
	case verbReduce:
		return fmt.Sprintf("Reduce(%v) to rank %d of %d elements", s.Op, s.Root, s.Len)
	}
	return fmt.Sprintf("%v from rank %d", s.Verb, s.Root)
}

// part is one message between two ranks. The receiver of Vec owns it, unless the algorithm shares it.
type part[T Number] struct {
	Round uint64
	From  int
	Sign  sign
	Step  int // of the algorithm; stepHello
	Chunk int
	Piece int
	Vec   []T
}

// stepHello is the Step of the word that a rank gives to the next when it enters a round.
const stepHello = -1

// handed is a part that carries a reference instead of a vector.
type handed[T Number] struct {
	Part part[T]
	Ref  raysys.Handle[[]T]
}

// out collects what an algorithm sends.
type out[T Number] struct {
	to  []int
	out []handed[T]
	how []manner
	// answer is what a part that came twice is answered with, where the first answer may have been lost.
	answer *part[T]
}

// manner is how a part travels.
type manner uint8

const (
	byItself manner = iota
	inCall          // in a call that the receiver holds until it has the answer
	inAnswer        // in the answer to such a call
	lent            // as a copy that is made when it leaves: until then the vector stays the algorithm's, and as it is
)

func (o *out[T]) send(to int, p part[T]) { o.sendRef(to, p, raysys.Handle[[]T]{}) }

func (o *out[T]) sendRef(to int, p part[T], ref raysys.Handle[[]T]) {
	o.add(to, handed[T]{p, ref}, byItself)
}

// lend is send of a vector that the algorithm keeps.
func (o *out[T]) lend(to int, p part[T]) { o.add(to, handed[T]{Part: p}, lent) }

func (o *out[T]) ask(to int, p part[T]) { o.add(to, handed[T]{Part: p}, inCall) }

// reply may be given a vector that others have too.
func (o *out[T]) reply(to int, p part[T]) { o.add(to, handed[T]{Part: p}, inAnswer) }

func (o *out[T]) add(to int, h handed[T], how manner) {
	o.to, o.out, o.how = append(o.to, to), append(o.out, h), append(o.how, how)
}

// algorithm is one rank's part of one round, as a pure state machine: parts in, parts out. Parts come in any order and
// perhaps twice.
type algorithm[T Number] interface {
	begin(o *out[T])
	take(p handed[T], o *out[T]) error
	// done: it has the result, and nothing more to send.
	done() bool
	result() outcome[T]
	// waits lists ranks it needs a part of, for messages.
	waits() []int
}

// outcome is what a rank gets of a round.
type outcome[T Number] struct {
	Vec  []T
	Ref  raysys.Handle[[]T]   // in place of Vec, where the round passed a reference on
	Refs []raysys.Handle[[]T] // by rank: what came from it
	Fail *RoundError
}

// round is one round at one rank: the algorithm, and the check that all ranks mean the same.
type round[T Number] struct {
	algorithm[T]
	participant place
	number      uint64
	sign        sign
	hello       bool // said, or not needed
}

// place is where a rank stands in its group.
type place struct{ rank, size int }

func (p place) next() int { return (p.rank + 1) % p.size }
func (p place) prev() int { return (p.rank + p.size - 1) % p.size }

// after is the rank n places behind base in the ring.
func (p place) after(base, n int) int { return ((base+n)%p.size + p.size) % p.size }

// others are the other ranks, from the next one on.
func (p place) others() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 1; n < p.size && yield(p.after(p.rank, n)); n++ {
		}
	}
}

// Sizes in bytes: up to small a vector travels whole, beside the head of a message that is not asked for first. Up to
// doublingSize an AllReduce exchanges whole vectors; a larger one offers objects, of which each costs about a millisecond.
const (
	small        = 60 << 10
	doublingSize = 1 << 20
)

// pieceSize is how much of a large vector one message of a Reduce carries.
const pieceSize = 1 << 20

// newRound makes the round that req asks for.
func newRound[T Number](at place, number uint64, req request[T]) *round[T] {
	r := &round[T]{participant: at, number: number, sign: req.Sign}
	switch bytes := sizeOf[T](len(req.Vec)); {
	case req.Sign.Verb == verbBroadcast:
		r.algorithm = newTreeDown(at, req)
	case req.Sign.Verb == verbReduce && bytes <= small:
		r.algorithm = newTreeUp(at, req.Sign, req.Vec)
	case req.Sign.Verb == verbReduce:
		r.algorithm = newChain(at, req.Sign, req.Vec, elements[T](pieceSize))
	case req.Refs != nil:
		r.algorithm = newExchange(at, req.Refs)
	case bytes <= small && at.size <= starSize:
		r.algorithm = newStar(at, req.Sign.Op, req.Vec)
	default:
		r.algorithm = newDoubling(at, req.Sign.Op, req.Vec)
	}
	// In an AllReduce every rank hears of every other. In the others a rank that only sends, or only waits, would
	// not learn that its neighbour does something else, nor be kept from running ahead of it without bound.
	r.hello = req.Sign.Verb == verbAllReduce || at.size == 1
	return r
}

// elements is how many elements fit into so many bytes.
func elements[T Number](bytes int) int { return max(1, bytes/sizeOf[T](1)) }

func (r *round[T]) begin(o *out[T]) {
	if !r.hello {
		o.send(r.participant.next(), part[T]{Step: stepHello})
	}
	// In a small group others may be at rank 0 with a call that it holds, past their participants, and only rank 0 can see a rank
	// that does something else.
	if _, ok := r.algorithm.(*star[T]); !ok && r.participant.size <= starSize && r.participant.rank > 0 && (r.hello || r.participant.next() != 0) {
		o.send(0, part[T]{Step: stepHello})
	}
	r.algorithm.begin(o)
}

func (r *round[T]) take(p handed[T], o *out[T]) error {
	if p.Part.Sign != r.sign {
		return fmt.Errorf("%w: rank %d called %v, and rank %d %v", ErrMismatch, r.participant.rank, r.sign, p.Part.From, p.Part.Sign)
	}
	if p.Part.Step == stepHello {
		r.hello = r.hello || p.Part.From == r.participant.prev()
		return nil
	}
	return r.algorithm.take(p, o)
}

func (r *round[T]) done() bool { return r.hello && r.algorithm.done() }

func (r *round[T]) waits() []int {
	w := r.algorithm.waits()
	if !r.hello && !slices.Contains(w, r.participant.prev()) {
		w = append(w, r.participant.prev())
	}
	return w
}

// errPart: another program, or another version of this one, is in the group.
var errPart = errors.New("a message that does not belong to the algorithm: do all nodes run the same program?")

func badPart[T Number](p part[T]) error {
	return fmt.Errorf("%w: step %d, chunk %d, piece %d, %d elements from rank %d", errPart, p.Step, p.Chunk, p.Piece, len(p.Vec), p.From)
}
