package simulate

import "math/bits"

// marks is a set of small numbers. A report comes to all nodes and is of use to few: they are found here.
type marks []uint64

func newMarks(size int) marks { return make(marks, (size+63)/64) }

func (m marks) add(i int) { m[i>>6] |= 1 << (i & 63) }

// each calls f with each number, in order, and keeps those that stay. f adds no other.
func (m marks) each(f func(i int32) (stays bool)) {
	for w := range m {
		for left := m[w]; left != 0; left &= left - 1 {
			k := bits.TrailingZeros64(left)
			if !f(int32(w<<6 + k)) {
				m[w] &^= 1 << k
			}
		}
	}
}
