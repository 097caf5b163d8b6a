package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/raysys/raysys"
)

// errInUse says that an object's bytes are safe on disk, but its memory is in use.
var errInUse = errors.New("in use")

// spill writes o to a file and drops its memory. The store's mutex is held, but for the work; o is not in use. On
// success or errInUse o has its file.
func (s *Store) spill(ctx context.Context, o *Object) error {
	o.op = make(chan struct{}) // it is not locked: o was in a chain, or is new
	o.room.remove()
	s.spilling++
	s.freeing++
	err := s.writeFile(ctx, o, "")
	s.spilling--
	s.freed()
	if err != nil {
		o.end()
		if h := s.config.Hooks.Trouble; h != nil && ctx.Err() == nil {
			s.later(func() { h("spill", err) })
		}
		return err
	}
	s.count.spilled++
	s.count.spilledBytes += o.version.Size
	before := o.charged
	if o.users == 0 && o.pins == 0 && s.forget(o) && o.users == 0 && o.pins == 0 {
		o.encoding, o.heap = nil, nil
		o.dropSegment()
	}
	o.end()
	if before > 0 && o.charged >= before {
		return errInUse
	}
	return nil
}

// writeFile gives o, which is in its slot, a file with the label. Where o has a file already, the new one is a copy of
// it and takes its place.
func (s *Store) writeFile(ctx context.Context, o *Object, label string) error {
	pieces, value, live, known, before := o.parts(), o.value, o.live, o.sums.complete(), o.file
	s.unlock()
	var size int64
	var first []uint32
	var source source
	var err error
	if pieces == nil && value == nil && before != nil {
		size, source = o.version.Size, o.copyOf(ctx, before)
	} else {
		size, first, source, err = s.sourceOf(o, pieces, value, live, known)
	}
	s.mu.Lock()
	if err == nil && !o.measure(size) {
		err = changed(o.id)
	}
	if err != nil {
		return err
	}
	w, err := s.newFile(o.id, o.version.Attempt, label, size)
	if err != nil {
		return err
	}
	s.unlock()
	sums, err := w.fill(ctx, o.id, source)
	if err == nil {
		s.mu.Lock()
		if first != nil && !slices.Equal(first, sums) || !o.sums.noteAll(sums) {
			err = changed(o.id)
		}
		s.unlock()
	}
	var f *spillFile
	if err == nil {
		f, err = w.commit(o.version, sums)
	} else {
		w.discard()
	}
	s.mu.Lock()
	if err != nil {
		s.diskUsed -= w.length
		return err
	}
	o.file = f
	if before != nil {
		s.discarded(before)
	}
	return nil
}

// parts returns o's bytes in memory, nil when there is at most the live value.
func (o *Object) parts() [][]byte {
	switch {
	case o.heap != nil:
		return [][]byte{o.heap.bytes}
	case o.seg != nil:
		return [][]byte{o.seg.mem[:o.version.Size]}
	case o.encoding != nil:
		return o.encoding.pieces
	}
	return nil
}

// encode makes the bytes of a value. A panic of the value's own methods becomes an error.
func encode(id raysys.TaskID, v Value) (pieces [][]byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			pieces, err = nil, fmt.Errorf("%w: object %s: its encoding panicked: %v", raysys.ErrEncode, id, r)
		}
	}()
	if v == nil {
		return nil, fmt.Errorf("%w: object %s has no value", raysys.ErrObjectLost, id)
	}
	pieces, err = v.Pieces()
	if err != nil {
		return nil, fmt.Errorf("encode object %s: %w", id, errors.Join(raysys.ErrEncode, err))
	}
	if pieces == nil {
		pieces = [][]byte{}
	}
	return pieces, nil
}

func changed(id raysys.TaskID) error {
	return fmt.Errorf("%w: object %s has other bytes than before: its value was changed after it was handed over, or its own marshaling method is not repeatable", raysys.ErrEncode, id)
}

// newFile reserves disk for an object and begins its file. The mutex is given up while the disk works.
func (s *Store) newFile(id raysys.TaskID, attempt uint32, label string, size int64) (*fileWriter, error) {
	n := bodyOffset(s.config.Cluster, label, size) + size
	if err := s.makeDisk(n); err != nil {
		return nil, err
	}
	s.unlock()
	w, err := s.create(id, attempt, label, size)
	s.mu.Lock()
	if err != nil {
		s.diskUsed -= n
		return nil, err
	}
	return w, nil
}

// makeDisk reserves n bytes of disk: copies go first, then files beside memory that holds the same, then the
// objects that a collection frees. The mutex is given up during a collection.
func (s *Store) makeDisk(n int64) error {
	limit := s.config.Disk
	if limit == 0 {
		var err error
		if limit, err = s.diskLimit(); err != nil {
			return err
		}
	}
	if n > limit {
		return fmt.Errorf("disk budget: %d bytes are more than the whole of %d", n, limit)
	}
	for s.diskUsed+n > limit {
		o := s.filed.first(func(o *Object) bool { return !o.primary && o.idle() })
		if o == nil {
			o = s.filed.first(func(o *Object) bool { return o.idle() && o.charged > 0 && o.file.label == "" })
		}
		if o == nil && s.pressLast() {
			continue
		}
		if o == nil {
			return fmt.Errorf("disk budget: %d of %d bytes are used and %d are needed: free some, or give more", s.diskUsed, limit, n)
		}
		if o.charged == 0 {
			s.drop(o)
			continue
		}
		o.dropFile()
		o.settle()
	}
	s.diskUsed += n
	return nil
}

// idle reports whether o has neither work under way nor uses.
func (o *Object) idle() bool { return o.users == 0 && o.pins == 0 && o.op == nil && o.in == nil }

// reserve bounds the disk space that is left free for other programs where Config.Disk gives no limit.
const reserve = 1 << 30

// diskLimit is the disk space that all spill files may take, given the space that is free now. A directory that
// vanished is made again. The mutex is given up while the disk works.
func (s *Store) diskLimit() (int64, error) {
	s.unlock()
	space := func(again bool) (free, all int64, err error) {
		dir, err := s.dir.path(again)
		if err == nil {
			free, all, err = s.fs.Space(dir)
		}
		return free, all, err
	}
	free, all, err := space(false)
	if errors.Is(err, fs.ErrNotExist) {
		free, all, err = space(true)
	}
	s.mu.Lock()
	if err != nil {
		return 0, err
	}
	left := max(0, free-min(reserve, all/20))
	if s.diskUsed > math.MaxInt64-left {
		return math.MaxInt64, nil
	}
	return s.diskUsed + left, nil
}

// discarded takes a file that nothing needs any more. A mapping keeps the bytes until it ends.
func (s *Store) discarded(f *spillFile) {
	s.diskUsed -= f.length
	s.unmap(f)
	s.later(func() { _ = s.fs.Remove(f.name) })
}
