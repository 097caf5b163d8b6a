package objectstore

import (
	"runtime"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/crc32c"
)

// sumsAside is from how many bytes on sums are computed by several goroutines, and sumsEach what each of them gets at
// least: bytes that no cache holds are summed at less than half of what a processor can do, and the other half is there.
const (
	sumsAside = 16 << 20
	sumsEach  = 4 << 20
)

// NewManifest computes the manifest of pieces that, joined, are the object's bytes.
func NewManifest(id raysys.TaskID, attempt uint32, pieces ...[]byte) Manifest {
	s := sums{size: total(pieces)}
	if workers := s.workers(); workers > 1 {
		s.chunks = sumAside(workers, s.size, pieces)
		return s.manifest(id, attempt)
	}
	s.chunks, s.size = make([]uint32, 0, Chunks(s.size)), 0
	for _, p := range pieces {
		s.add(p)
	}
	return s.manifest(id, attempt)
}

// sums computes a manifest of bytes as they come.
type sums struct {
	chunks []uint32
	size   int64
	chunk  uint32 // of the bytes since the last whole chunk
}

func (s *sums) add(p []byte) {
	for len(p) > 0 {
		n := min(len(p), ChunkSize-int(s.size%ChunkSize))
		s.chunk = crc32c.Update(s.chunk, p[:n])
		p = p[n:]
		if s.size += int64(n); s.size%ChunkSize == 0 {
			s.flush()
		}
	}
}

// flush ends a chunk.
func (s *sums) flush() {
	s.chunks = append(s.chunks, s.chunk)
	s.chunk = 0
}

func (s *sums) manifest(id raysys.TaskID, attempt uint32) Manifest {
	m := Manifest{Version: Version{ID: id, Attempt: attempt, Size: s.size}, Chunks: s.chunks}
	if len(m.Chunks) < Chunks(s.size) {
		m.Chunks = append(m.Chunks, s.chunk)
	}
	m.Sum = m.sum()
	return m
}

// workers is how many goroutines are to compute the sums of s.size bytes.
func (s *sums) workers() int {
	if s.size < sumsAside {
		return 1
	}
	return int(min(int64(runtime.GOMAXPROCS(0)), s.size/sumsEach))
}

// sumAside computes the sums of size bytes: each goroutine has a stretch of whole chunks.
func sumAside(workers int, size int64, pieces [][]byte) []uint32 {
	n := Chunks(size)
	out := make([]uint32, n)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			first, end := n*w/workers, n*(w+1)/workers
			from, to := int64(first)*ChunkSize, min(int64(end)*ChunkSize, size)
			mine := sums{chunks: out[first:first:end]}
			for _, p := range section(pieces, from, int(to-from)) {
				mine.add(p)
			}
			if mine.size%ChunkSize != 0 {
				mine.flush()
			}
		})
	}
	all.Wait()
	return out
}

// sumOf is the CRC-32C of the joint of pieces.
func sumOf(pieces [][]byte) (sum uint32) {
	for _, p := range pieces {
		sum = crc32c.Update(sum, p)
	}
	return sum
}

// sumSome computes the sums of some chunks of m, side by side where they are many.
func sumSome(m Manifest, chunks []int, pieces [][]byte) []uint32 {
	out := make([]uint32, len(chunks))
	some := sums{size: int64(len(chunks)) * ChunkSize}
	workers := some.workers()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for k := w; k < len(chunks); k += workers {
				at, n := m.Section(chunks[k])
				out[k] = sumOf(section(pieces, at, n))
			}
		})
	}
	all.Wait()
	return out
}
