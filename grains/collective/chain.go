package collective

// chain is Reduce of large vectors: piece by piece they go from the rank before the root backwards round the ring to
// the root, each rank adding its own. Every link carries the vector once, and all links are busy at the same time.
type chain[T Number] struct {
	place
	root  int
	op    Op
	vec   []T // its own elements; at the root they are replaced by the result's
	piece int
	seen  []bool
	left  int
}

// newChain takes vec over.
func newChain[T Number](at place, s sign, vec []T, piece int) *chain[T] {
	c := &chain[T]{place: at, root: s.Root, op: s.Op, vec: vec, piece: piece}
	c.seen = make([]bool, (len(vec)+piece-1)/piece)
	if !c.starts() && at.size > 1 {
		c.left = len(c.seen)
	}
	return c
}

// starts: the chain begins at this rank.
func (c *chain[T]) starts() bool { return c.after(c.root, -1) == c.rank }

func (c *chain[T]) at(i int) []T { return c.vec[i*c.piece : min((i+1)*c.piece, len(c.vec))] }

func (c *chain[T]) begin(o *out[T]) {
	if !c.starts() || c.size == 1 {
		return
	}
	for i := range c.seen {
		o.lend(c.prev(), part[T]{Piece: i, Vec: c.at(i)})
	}
}

func (c *chain[T]) take(h handed[T], o *out[T]) error {
	p := h.Part
	if p.From != c.next() || c.size == 1 || c.starts() || p.Piece < 0 || p.Piece >= len(c.seen) || len(p.Vec) != len(c.at(p.Piece)) {
		return badPart(p)
	}
	if c.seen[p.Piece] {
		return nil // it came twice
	}
	c.seen[p.Piece] = true
	c.left--
	mine, vec := c.at(p.Piece), p.Vec
	if c.rank == c.root {
		combine(c.op, mine, vec, mine)
		return nil
	}
	combine(c.op, vec, vec, mine)
	o.send(c.prev(), part[T]{Piece: p.Piece, Vec: vec})
	return nil
}

func (c *chain[T]) done() bool { return c.left == 0 }

func (c *chain[T]) result() outcome[T] {
	if c.rank != c.root {
		return outcome[T]{}
	}
	return outcome[T]{Vec: c.vec}
}

func (c *chain[T]) waits() []int {
	if c.done() {
		return nil
	}
	return []int{c.next()}
}
