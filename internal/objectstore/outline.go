package objectstore

import (
	"context"
	"errors"
	"fmt"
)

// Outline is a manifest as far as it is known: unless Whole, it has neither the sums of chunks nor that of the version.
type Outline struct {
	Manifest
	Whole bool
	// Mark names sums that were computed one by one, as chunks were sent: two outlines with the same mark have the
	// same sums, though not all of them may be known yet. 0 names none.
	Mark uint64
}

// Check returns an error for an outline from another node that is not valid.
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
// chunk is then computed by [Chunk.Sum], when it is sent.
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

// outline returns the manifest as far as it is known. The mutex is held; sums that are still being written to are not
// given away.
func (o *Object) outline() Outline {
	l := Outline{Manifest: o.man, Whole: o.known, Mark: o.mark}
	if !o.known {
		l.Chunks = nil
	}
	return l
}

// Outline returns the manifest of the object being received, as far as it is known.
func (in *Incoming) Outline() Outline {
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	return in.object.outline()
}

// Adopt takes the manifest of an object whose sums come with its chunks, from a node that knows them all. It is an
// error if it has another sum for a chunk that came; nothing changes then.
func (in *Incoming) Adopt(m Outline) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("adopt manifest: %w", err)
	}
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	o := in.object
	switch {
	case in.ended && in.err != nil:
		return nil // there is nothing that it could be of
	case !m.Whole || m.ID != o.id || m.Attempt != o.man.Attempt || !o.noteAll(m.Manifest):
		return fmt.Errorf("adopt manifest of %s: %w", m.Version, errOtherSums)
	}
	if m.Mark != o.mark { // that these are the sums of the old mark is not known, of chunks that did not come yet
		o.mark = 0
	}
	return nil
}

// errOtherSums is the error for a manifest of other bytes than those being received.
var errOtherSums = errors.New("its sums are others than those that chunks came with")
