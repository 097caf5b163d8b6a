package collective

import (
	"slices"

	"github.com/raysys/raysys"
)

// A binomial tree over the ranks, counted from the root: the parent of v is v without its lowest set bit.
type tree struct {
	place
	root int
}

func (t tree) virtual() int { return t.after(t.rank, -t.root) }

// isRoot: it has no parent.
func (t tree) isRoot() bool { return t.rank == t.root }

func (t tree) parent() int {
	v := t.virtual()
	return t.after(t.root, v&(v-1))
}

// children are listed from the smallest subtree to the largest.
func (t tree) children() (ranks []int) {
	v := t.virtual()
	for bit := 1; (v == 0 || bit < v&-v) && v+bit < t.size; bit *= 2 {
		ranks = append(ranks, t.after(t.root, v+bit))
	}
	return ranks
}

// treeDown is Broadcast: the vector, or the reference to it, goes down the tree.
type treeDown[T Number] struct {
	tree
	got bool
	vec []T // shared by all ranks
	ref raysys.Handle[[]T]
}

func newTreeDown[T Number](at place, req request[T]) *treeDown[T] {
	t := &treeDown[T]{tree: tree{at, req.Sign.Root}}
	if t.isRoot() {
		t.got, t.vec, t.ref = true, req.Vec, req.Ref
	}
	return t
}

func (t *treeDown[T]) begin(o *out[T]) {
	if t.got {
		t.pass(o)
	}
}

// pass gives it to the children, those with the most below them first.
func (t *treeDown[T]) pass(o *out[T]) {
	for _, c := range slices.Backward(t.children()) {
		o.sendRef(c, part[T]{Vec: t.vec}, t.ref)
	}
}

func (t *treeDown[T]) take(p handed[T], o *out[T]) error {
	if t.isRoot() || p.Part.From != t.parent() {
		return badPart(p.Part)
	}
	if !t.got {
		t.got, t.vec, t.ref = true, p.Part.Vec, p.Ref
		t.pass(o)
	}
	return nil
}

func (t *treeDown[T]) done() bool { return t.got }

func (t *treeDown[T]) result() outcome[T] {
	if t.isRoot() {
		return outcome[T]{Ref: t.ref} // the caller has the vector
	}
	return outcome[T]{Vec: t.vec, Ref: t.ref}
}

func (t *treeDown[T]) waits() []int {
	if t.got {
		return nil
	}
	return []int{t.parent()}
}

// treeUp is Reduce of small vectors: each rank adds its children's vectors to its own, in a fixed order, and hands the
// sum to its parent.
type treeUp[T Number] struct {
	tree
	op   Op
	acc  []T
	kids []int
	got  [][]T // by child
	left int
}

// newTreeUp takes vec over.
func newTreeUp[T Number](at place, s sign, vec []T) *treeUp[T] {
	t := &treeUp[T]{tree: tree{at, s.Root}, op: s.Op, acc: vec}
	t.kids = t.children()
	t.got, t.left = make([][]T, len(t.kids)), len(t.kids)
	return t
}

func (t *treeUp[T]) begin(o *out[T]) { t.finish(o) }

func (t *treeUp[T]) finish(o *out[T]) {
	if t.left > 0 {
		return
	}
	for _, v := range t.got {
		combine(t.op, t.acc, t.acc, v)
	}
	if !t.isRoot() {
		o.send(t.parent(), part[T]{Vec: t.acc})
		t.acc = nil // the parent's now
	}
}

func (t *treeUp[T]) take(h handed[T], o *out[T]) error {
	p := h.Part
	i := slices.Index(t.kids, p.From)
	if i < 0 || t.left > 0 && len(p.Vec) != len(t.acc) {
		return badPart(p)
	}
	if t.left == 0 || t.got[i] != nil {
		return nil // it came twice
	}
	if p.Vec == nil {
		p.Vec = []T{}
	}
	t.got[i] = p.Vec
	t.left--
	t.finish(o)
	return nil
}

func (t *treeUp[T]) done() bool { return t.left == 0 }

func (t *treeUp[T]) result() outcome[T] { return outcome[T]{Vec: t.acc} }

func (t *treeUp[T]) waits() (ranks []int) {
	for i, v := range t.got {
		if v == nil {
			ranks = append(ranks, t.kids[i])
		}
	}
	return ranks
}
