package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// entry stands for a record while its part is sorted.
type entry struct {
	hi  uint64 // the key
	lo  uint16
	pos uint32 // of the record in its part
}

// split sorts the records of a part and cuts them at the splitters, keys one after the other: block i has those before
// splitter i and not before the one before it. Each block has memory of its own, so that each can go to disk by itself.
func split(part, splitters []byte) [][]byte {
	entries := make([]entry, len(part)/recordSize)
	for i := range entries {
		key := part[i*recordSize:]
		entries[i] = entry{binary.BigEndian.Uint64(key), binary.BigEndian.Uint16(key[8:]), uint32(i)}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.pos, b.pos))
	})
	record := func(e entry) []byte { return part[int(e.pos)*recordSize:][:recordSize] }
	blocks := make([][]byte, 0, len(splitters)/keySize+1)
	for ; ; splitters = splitters[keySize:] {
		n := len(entries)
		if len(splitters) > 0 {
			n, _ = slices.BinarySearchFunc(entries, splitters[:keySize], func(e entry, key []byte) int {
				return bytes.Compare(record(e)[:keySize], key)
			})
		}
		block := make([]byte, 0, n*recordSize)
		for _, e := range entries[:n] {
			block = append(block, record(e)...)
		}
		blocks, entries = append(blocks, block), entries[n:]
		if len(splitters) == 0 {
			return blocks
		}
	}
}

// splitters chooses n-1 keys that cut a sample, keys one after the other, into n parts of about one size.
func splitters(sample []byte, n int) []byte {
	keys := slices.Collect(slices.Chunk(sample, keySize))
	slices.SortFunc(keys, bytes.Compare)
	var cuts []byte
	for i := 1; i < n && len(keys) > 0; i++ {
		cuts = append(cuts, keys[i*len(keys)/n]...)
	}
	return cuts
}

// merge hands the records of sorted runs to emit in order; of equal keys, those of an earlier run come first.
func merge(runs [][]byte, emit func(rec []byte) error) error {
	heads := make([]head, 0, len(runs))
	for i, run := range runs {
		if len(run) > 0 {
			heads = append(heads, newHead(i, run))
		}
	}
	for i := len(heads)/2 - 1; i >= 0; i-- {
		sink(heads, i)
	}
	for len(heads) > 0 {
		h := &heads[0]
		if err := emit(h.rest[:recordSize]); err != nil {
			return err
		}
		if rest := h.rest[recordSize:]; len(rest) > 0 {
			*h = newHead(h.run, rest)
		} else {
			heads[0] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		}
		sink(heads, 0)
	}
	return nil
}

// head is what is left of a run.
type head struct {
	hi   uint64 // its first key
	lo   uint16
	run  int
	rest []byte
}

func newHead(run int, rest []byte) head {
	return head{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint16(rest[8:]), run, rest}
}

func (h *head) before(o *head) bool {
	switch {
	case h.hi != o.hi:
		return h.hi < o.hi
	case h.lo != o.lo:
		return h.lo < o.lo
	}
	return h.run < o.run
}

// sink restores the heap of heads whose element i may be too large for its place.
func sink(heads []head, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heads); child++ {
			if heads[child].before(&heads[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heads[i], heads[least] = heads[least], heads[i]
		i = least
	}
}
