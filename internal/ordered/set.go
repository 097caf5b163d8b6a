package ordered

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// blockSize is where a block is split: 512 strings are 8 KiB of headers, which an insertion moves in a few hundred
// nanoseconds.
const blockSize = 512

// Set is a set of strings in their order. The zero Set is empty. It is not safe for concurrent use.
type Set struct {
	blocks [][]string // none empty, each in order, all of one before all of the next
	n      int
}

// Len returns the number of strings.
func (s *Set) Len() int { return s.n }

// find returns the block that holds or would hold x.
func (s *Set) find(x string) int {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i][0] > x })
	return max(i-1, 0)
}

// Insert adds x and reports whether it was new.
func (s *Set) Insert(x string) bool {
	if len(s.blocks) == 0 {
		s.blocks = append(s.blocks, append(make([]string, 0, 8), x))
		s.n = 1
		return true
	}
	b := s.find(x)
	block := s.blocks[b]
	i, found := slices.BinarySearch(block, x)
	if found {
		return false
	}
	s.n++
	if len(block) < blockSize {
		s.blocks[b] = slices.Insert(block, i, x)
		return true
	}
	// Keys often come in order: then the last block stays full and a new one begins.
	at := blockSize / 2
	if b == len(s.blocks)-1 && i == blockSize {
		at = blockSize
	}
	rest := append(make([]string, 0, blockSize), block[at:]...)
	clear(block[at:])
	block = block[:at]
	if i <= at && at < blockSize {
		block = slices.Insert(block, i, x)
	} else {
		rest = slices.Insert(rest, i-at, x)
	}
	s.blocks[b] = block
	s.blocks = slices.Insert(s.blocks, b+1, rest)
	return true
}

// Delete removes x and reports whether it was there.
func (s *Set) Delete(x string) bool {
	if len(s.blocks) == 0 {
		return false
	}
	b := s.find(x)
	i, found := slices.BinarySearch(s.blocks[b], x)
	if !found {
		return false
	}
	s.n--
	if s.blocks[b] = slices.Delete(s.blocks[b], i, i+1); len(s.blocks[b]) == 0 {
		s.blocks = slices.Delete(s.blocks, b, b+1)
	}
	return true
}

// Prefix visits the strings that begin with prefix, in order. The set must not change meanwhile.
func (s *Set) Prefix(prefix string) iter.Seq[string] { return s.From(prefix, prefix) }

// From visits the strings that begin with prefix and are not before start, in order.
func (s *Set) From(prefix, start string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(s.blocks) == 0 {
			return
		}
		start = max(prefix, start)
		first := s.find(start)
		for b := first; b < len(s.blocks); b++ {
			block := s.blocks[b]
			if b == first {
				i, _ := slices.BinarySearch(block, start)
				block = block[i:]
			}
			for _, x := range block {
				if !strings.HasPrefix(x, prefix) || !yield(x) {
					return
				}
			}
		}
	}
}
