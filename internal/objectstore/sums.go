package objectstore

import (
	"slices"

	"github.com/raysys/raysys/internal/crc32c"
)

// sums is the CRC-32C of each chunk of an object, as far as they are known. A known sum never changes: another node may
// have verified its bytes against it. The store's mutex guards it.
type sums struct {
	crc   []uint32
	known []bool
}

// newSums is of an object of size bytes, none of whose sums is known.
func newSums(size int64) *sums {
	n := Chunks(size)
	return &sums{crc: make([]uint32, n), known: make([]bool, n)}
}

// complete reports whether all sums are known; those of nil are not.
func (s *sums) complete() bool { return s != nil && !slices.Contains(s.known, false) }

// note takes the sum of chunk i. False: another one is known.
func (s *sums) note(i int, sum uint32) bool {
	if s.known[i] {
		return s.crc[i] == sum
	}
	s.crc[i], s.known[i] = sum, true
	return true
}

// noteAll takes the sums of all chunks. False, and nothing changes: another one is known for some chunk, or the number
// is wrong.
func (s *sums) noteAll(crc []uint32) bool {
	if len(crc) != len(s.crc) {
		return false
	}
	for i, sum := range crc {
		if s.known[i] && s.crc[i] != sum {
			return false
		}
	}
	for i, sum := range crc {
		s.note(i, sum)
	}
	return true
}

// sumOf is the CRC-32C of the joint of pieces.
func sumOf(pieces [][]byte) (sum uint32) {
	for _, p := range pieces {
		sum = crc32c.Update(sum, p)
	}
	return sum
}

// running computes the sums of bytes as they come.
type running struct {
	size   int64
	chunks []uint32
	chunk  uint32 // of the bytes since the last whole chunk
}

func (r *running) add(p []byte) {
	for len(p) > 0 {
		n := min(len(p), ChunkSize-int(r.size%ChunkSize))
		r.chunk = crc32c.Update(r.chunk, p[:n])
		p = p[n:]
		if r.size += int64(n); r.size%ChunkSize == 0 {
			r.chunks, r.chunk = append(r.chunks, r.chunk), 0
		}
	}
}

// all returns the sums, after the last byte.
func (r *running) all() []uint32 {
	if len(r.chunks) < Chunks(r.size) {
		r.chunks = append(r.chunks, r.chunk)
	}
	return r.chunks
}
