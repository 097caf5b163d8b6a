package object

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Outline is a manifest as far as it is known: unless Whole, it has neither the sums of chunks nor that of the version.
type Outline struct {
	Manifest
	Whole bool
	// Mark names sums that were computed one by one, as chunks were sent: of two outlines with the same mark the sums are
	// the same, though nobody may know all of them yet. 0 names none.
	Mark uint64
}

// Check reports what is wrong with an outline that came from elsewhere.
func (l Outline) Check() error {
	if l.Whole {
		return l.Manifest.Check()
	}
	if l.Mark == 0 {
		return fmt.Errorf("outline of %s: sums that come with the chunks have to have a mark", l.ID)
	}
	return l.Version.check()
}

// Outline returns the manifest if it is known, and else what can be said without a look at every byte. The sum of each
// chunk is then computed by Chunk, which comes to it anyhow.
func (o *Object) Outline(ctx context.Context) (Outline, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Outline{}, fmt.Errorf("outline of object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for !o.known && o.tally == nil {
		if err := o.gone(); err != nil {
			return Outline{}, err
		}
		if err := o.encoded(ctx, false); err != nil {
			return Outline{}, err
		}
	}
	if o.lost != nil {
		return Outline{}, o.lost
	}
	return o.outline(), nil
}

// outline is what is known. The mutex is held; sums that are still being written to are not given away.
func (o *Object) outline() Outline {
	l := Outline{Manifest: o.man, Whole: o.known, Mark: o.mark}
	if !o.known {
		l.Chunks = nil
	}
	return l
}

// tally is which of an object's sums are known, while not all are. What is known does not change any more: it is what
// some receiver has verified its bytes against.
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

// note takes the sum of a chunk. False: it is another than the one that is known.
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

// noteAll takes a manifest of the object's bytes. False: it contradicts what is known, of which nothing changes.
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

// sumChunk is Chunk of an encoding whose sum may not be known yet: it is computed without the mutex, and whoever sends
// the bytes then finds them in the processor's cache.
func (o *Object) sumChunk(i int, c Chunk) (Chunk, error) {
	s := o.store
	c = o.lend(c)
	if !o.has(i) {
		s.unlock()
		sum := sumOf(c.Pieces)
		s.mu.Lock()
		if !o.note(i, sum) {
			o.users--
			o.settle()
			return Chunk{}, changed(o.id)
		}
	}
	c.Sum = o.man.Chunks[i]
	return c, nil
}

// check reports what is wrong with a version that came from elsewhere.
func (v Version) check() error {
	switch {
	case v.ID.IsZero():
		return fmt.Errorf("manifest without an object id: its sender is damaged")
	case v.Size < 0 || v.Size > MaxSize:
		return fmt.Errorf("manifest of %s: %d bytes are no size", v.ID, v.Size)
	}
	return nil
}

// errOtherSums says that a manifest is not that of what is being received.
var errOtherSums = errors.New("its sums are others than those that chunks came with")
