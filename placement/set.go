package placement

import (
	"math/bits"
	"slices"
)

// set is a set of nodes, by their index. Where sizes differ it has their sums, so that a draw by size does not look at each.
type set struct {
	words []uint64
	n     int
	upTo  []uint64 // of the view
	sizes []uint64 // of the nodes in each word; nil where all are equal
}

func (s *set) has(i int) bool { return s.words[i>>6]&(1<<(i&63)) != 0 }

// both returns the nodes of list that are in s.
func (s *set) both(list []int) []int {
	out := make([]int, 0, len(list))
	for _, i := range list {
		if s.has(i) {
			out = append(out, i)
		}
	}
	return out
}

// without returns s less the nodes of list, which are in it. It is s itself where there are none.
func (s *set) without(list []int) *set {
	if len(list) == 0 {
		return s
	}
	out := *s
	out.words, out.sizes = slices.Clone(s.words), slices.Clone(s.sizes)
	for _, i := range list {
		out.remove(i)
	}
	return &out
}

func (s *set) add(i int) {
	s.words[i>>6] |= 1 << (i & 63)
	s.n++
	if s.sizes != nil {
		s.sizes[i>>6] += s.upTo[i+1] - s.upTo[i]
	}
}

func (s *set) remove(i int) {
	s.words[i>>6] &^= 1 << (i & 63)
	s.n--
	if s.sizes != nil {
		s.sizes[i>>6] -= s.upTo[i+1] - s.upTo[i]
	}
}

// all calls f with each node, in order.
func (s *set) all(f func(i int)) {
	for w, word := range s.words {
		for ; word != 0; word &= word - 1 {
			f(w<<6 + bits.TrailingZeros64(word))
		}
	}
}

// list returns them in order, in buf where they have room there.
func (s *set) list(buf []int) []int {
	if s.n > cap(buf) {
		buf = make([]int, 0, s.n)
	}
	s.all(func(i int) { buf = append(buf, i) })
	return buf
}

// at returns the k-th node, from 0.
func (s *set) at(k int) int {
	for w, word := range s.words {
		n := bits.OnesCount64(word)
		if k >= n {
			k -= n
			continue
		}
		for ; k > 0; k-- {
			word &= word - 1
		}
		return w<<6 + bits.TrailingZeros64(word)
	}
	return -1
}

// one draws a node.
func (s *set) one(d *draw) int { return s.at(int(d.below(uint64(s.n)))) }

// bySize draws a node with odds by size.
func (s *set) bySize(d *draw) int {
	if s.sizes == nil {
		return s.one(d)
	}
	sum := uint64(0)
	for _, size := range s.sizes {
		sum += size
	}
	at, w := d.below(sum), 0
	for ; at >= s.sizes[w]; w++ {
		at -= s.sizes[w]
	}
	for i := w << 6; ; i++ {
		if !s.has(i) {
			continue
		}
		size := s.upTo[i+1] - s.upTo[i]
		if at < size {
			return i
		}
		at -= size
	}
}
