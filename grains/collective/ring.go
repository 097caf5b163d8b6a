package collective

// ring is AllReduce for large vectors. The vector is cut into one chunk per rank. In the first phase chunk c begins at
// rank c and goes once round the ring, each rank adding its own; at rank c-1 it is complete, and in the second phase it
// goes round again for all to keep. A rank sends and receives 2(size-1)/size of the vector, whatever the size. Chunks
// travel in pieces, so that all links are busy at once. Each chunk is computed in one order at one place, so all ranks
// get the same bits.
type ring[T Number] struct {
	place
	op    Op
	vec   []T // its own elements, replaced by the result's
	piece int // elements
	left  int // messages that have not come
	seen  [2][]bool
	first []int // by chunk: the number of its first piece
}

// Steps of the ring.
const (
	stepReduce = 0
	stepGather = 1
)

// newRing takes vec over.
func newRing[T Number](at place, op Op, vec []T, piece int) *ring[T] {
	r := &ring[T]{place: at, op: op, vec: vec, piece: piece, first: make([]int, at.size+1)}
	for c := range at.size {
		lo, hi := r.chunk(c)
		r.first[c+1] = r.first[c] + (hi-lo+piece-1)/piece
	}
	pieces := r.first[at.size]
	r.seen = [2][]bool{make([]bool, pieces), make([]bool, pieces)}
	if at.size == 1 {
		return r
	}
	r.left = 2*pieces - r.pieces(at.rank) - r.pieces(at.next()) // neither its own chunk to add nor the one it completes to keep
	return r
}

func (r *ring[T]) chunk(c int) (lo, hi int) {
	return len(r.vec) * c / r.size, len(r.vec) * (c + 1) / r.size
}

func (r *ring[T]) pieces(c int) int { return r.first[c+1] - r.first[c] }

// at returns the rank's elements of one piece, and its number among all.
func (r *ring[T]) at(c, piece int) (mine []T, n int) {
	lo, hi := r.chunk(c)
	lo += piece * r.piece
	return r.vec[lo:min(lo+r.piece, hi)], r.first[c] + piece
}

func (r *ring[T]) begin(o *out[T]) {
	if r.size == 1 {
		return
	}
	// Nothing changes this chunk before it comes back complete, which is after it has left.
	for i := range r.pieces(r.rank) {
		mine, _ := r.at(r.rank, i)
		o.lend(r.next(), part[T]{Step: stepReduce, Chunk: r.rank, Piece: i, Vec: mine})
	}
}

func (r *ring[T]) take(h handed[T], o *out[T]) error {
	p := h.Part
	if p.From != r.prev() || r.size == 1 || p.Chunk < 0 || p.Chunk >= r.size || p.Piece < 0 || p.Piece >= r.pieces(p.Chunk) {
		return badPart(p)
	}
	if p.Step != stepReduce && p.Step != stepGather {
		return badPart(p)
	}
	completes := r.next() // the chunk that is complete once this rank has added to it
	if p.Step == stepReduce && p.Chunk == r.rank || p.Step == stepGather && p.Chunk == completes {
		return badPart(p)
	}
	mine, n := r.at(p.Chunk, p.Piece)
	if len(p.Vec) != len(mine) {
		return badPart(p)
	}
	if r.seen[p.Step][n] {
		return nil // it came twice
	}
	r.seen[p.Step][n] = true
	r.left--
	vec := p.Vec
	if p.Step == stepReduce {
		combine(r.op, vec, vec, mine)
		if p.Chunk != completes {
			o.send(r.next(), part[T]{Step: stepReduce, Chunk: p.Chunk, Piece: p.Piece, Vec: vec})
			return nil
		}
	}
	// Complete: kept, and passed on until it is back where it was completed. From here on all ranks share vec.
	copy(mine, vec)
	if r.after(p.Chunk, -1) != r.next() {
		o.send(r.next(), part[T]{Step: stepGather, Chunk: p.Chunk, Piece: p.Piece, Vec: vec})
	}
	return nil
}

func (r *ring[T]) done() bool { return r.left == 0 }

func (r *ring[T]) result() outcome[T] { return outcome[T]{Vec: r.vec} }

func (r *ring[T]) waits() []int {
	if r.done() {
		return nil
	}
	return []int{r.prev()}
}
