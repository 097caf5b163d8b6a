package objectstore

import "math/rand/v2"

// tally records which of an object's sums are known, while not all are. A known sum does not change any more: a
// receiver may have verified its bytes with it.
type tally struct {
	have []bool
	left int
}

// count begins a tally, with the sums in o.man. The mutex is held, as it is for all that follows here.
func (o *Object) count(v Version, mark uint64) {
	n := Chunks(v.Size)
	v.Sum = 0
	o.man, o.known, o.mark = Manifest{Version: v, Chunks: make([]uint32, n)}, false, mark
	o.tally = &tally{make([]bool, n), n}
	if n == 0 {
		o.complete()
	}
}

// newMark is one that no other object has.
func newMark() uint64 { return rand.Uint64() | 1 }

// has reports whether the sum of chunk i is known.
func (o *Object) has(i int) bool { return o.known || o.tally != nil && o.tally.have[i] }

// note records the sum of a chunk. False: it differs from the known one.
func (o *Object) note(i int, sum uint32) bool {
	if o.has(i) {
		return o.man.Chunks[i] == sum
	}
	o.man.Chunks[i], o.tally.have[i] = sum, true
	if o.tally.left--; o.tally.left == 0 {
		o.complete()
	}
	return true
}

// complete ends the tally: all sums are known.
func (o *Object) complete() {
	o.man.Sum = o.man.sum()
	o.known, o.tally = true, nil
	if o.in != nil {
		o.in.summed()
	}
}

// noteAll takes a manifest of the object's bytes. False: it contradicts a known sum, and nothing changes.
func (o *Object) noteAll(m Manifest) bool {
	switch {
	case o.known:
		return m.Size == o.man.Size && m.Sum == o.man.Sum
	case o.tally == nil:
		o.man, o.known = m, true
		return true
	case m.Size != o.man.Size:
		return false
	}
	for i, sum := range m.Chunks {
		if o.tally.have[i] && o.man.Chunks[i] != sum {
			return false
		}
	}
	for i, sum := range m.Chunks {
		o.note(i, sum)
	}
	return true
}

// missing lists the chunks whose sums are not known.
func (t *tally) missing() (chunks []int) {
	for i, have := range t.have {
		if !have {
			chunks = append(chunks, i)
		}
	}
	return chunks
}

// sumRest computes the sums that are missing. o is in its slot; the mutex is given up meanwhile, and chunks that are lent
// may bring sums of their own.
func (o *Object) sumRest(pieces [][]byte) error {
	s := o.store
	missing, m := o.tally.missing(), o.man
	s.unlock()
	got := sumSome(m, missing, pieces)
	s.mu.Lock()
	for k, i := range missing {
		if !o.note(i, got[k]) {
			return changed(o.id)
		}
	}
	return nil
}
