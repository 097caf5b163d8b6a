package objectstore

import (
	"context"
	"errors"
	"fmt"
)

// Shared tells another process of this host where an object's bytes are: descriptor FD of process PID. Device, Inode
// and Capacity tell whether that is still the same memory.
type Shared struct {
	PID      int
	FD       int
	Device   uint64
	Inode    uint64
	Capacity int64 // bytes of the segment, of which the object has the first
	// Sums are those of the object's chunks: the other process passes them on with the chunks.
	Sums []uint32
}

// ErrNotShareable says that an object's bytes cannot be mapped by another process: pull them.
var ErrNotShareable = errors.New("object cannot be shared with another process")

// Share makes the object's bytes mappable by other processes of this user on this host. Where they are in no segment
// yet they are copied into one and summed, once for all receivers; a segment that was shared never changes any more.
// Without memory files, or without room for the segment, it returns ErrNotShareable.
func (o *Object) Share(ctx context.Context) (Shared, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Shared{}, fmt.Errorf("share object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for {
		if err := o.gone(); err != nil {
			return Shared{}, err
		}
		switch {
		case o.in != nil:
			if err := s.await(ctx, o.in.done); err != nil {
				return Shared{}, fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.seg != nil:
			if o.seg.foreign {
				return Shared{}, fmt.Errorf("%w: object %s is mapped from another process: ask that one", ErrNotShareable, o.id)
			}
			o.seg.shared = true
			o.touch()
			at := o.seg.address(int64(len(o.seg.mem)))
			at.Sums = o.sums.crc // all are known, and stay
			return at, nil
		case o.sums != nil && o.version.Size == 0:
			return Shared{}, fmt.Errorf("%w: object %s has no bytes", ErrNotShareable, o.id)
		case s.noSegments:
			return Shared{}, fmt.Errorf("%w: %w", ErrNotShareable, errNoSegments)
		case o.op != nil:
			if err := s.await(ctx, o.op); err != nil {
				return Shared{}, fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.parts() == nil && o.file == nil:
			if err := o.encoded(ctx); err != nil {
				return Shared{}, err
			}
		default:
			if err := o.segmented(ctx); err != nil && err != errOtherForm {
				return Shared{}, err
			}
		}
	}
}

// segmented copies the object's bytes into a segment, and sums them: a segment may be shared. The mutex is given up
// while bytes move.
func (o *Object) segmented(ctx context.Context) error {
	s := o.store
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	size := o.version.Size
	seg, err := s.segmentFor(ctx, size)
	if err != nil {
		if errors.Is(err, errNoRoom) || errors.Is(err, errNoSegments) {
			return fmt.Errorf("%w: object %s: %w", ErrNotShareable, o.id, err)
		}
		return fmt.Errorf("share object %s: %w", o.id, err)
	}
	s.reserved += int64(len(seg.mem)) // until it is the object's
	pieces, file := o.parts(), o.file
	s.unlock()
	var sums running
	if pieces != nil {
		to := seg.mem[:size]
		for _, p := range pieces {
			for len(p) > 0 {
				n := copy(to[:min(len(to), ChunkSize)], p)
				sums.add(to[:n]) // from the processor's cache
				to, p = to[n:], p[n:]
			}
		}
	} else {
		err = o.restore(ctx, file, seg.mem[:size])
	}
	s.mu.Lock()
	s.reserved -= int64(len(seg.mem))
	if err == nil && pieces != nil && !o.sums.noteAll(sums.all()) {
		err = changed(o.id)
	}
	if err != nil {
		s.destroy(seg)
		s.wake()
		return err
	}
	o.seg = seg
	if o.value != nil {
		o.encoding = nil
	}
	return nil
}

// Attach maps the bytes that another process of this host shares, read-only, as a copy. It checks that the memory is
// the one that was announced, that it can never shrink, and that its last chunk has the announced checksum. Any doubt
// is an error that matches ErrNotShareable: pull the object instead.
func (s *Store) Attach(ctx context.Context, at Shared, v Version) (*Object, error) {
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("attach object: %w", err)
	}
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	defer s.busy.Done()
	if err := s.receivable(v); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	s.unlock()
	seg, err := attachSegment(at, v)
	s.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("%w: attach object %s: %w", ErrNotShareable, v.ID, err)
	}
	if err := errors.Join(s.usable(ctx), s.receivable(v)); err != nil {
		s.destroy(seg)
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	o := s.table[v.ID]
	if o == nil {
		o = s.enlist(v, "attached")
	}
	o.measure(v.Size)
	if !o.sums.noteAll(at.Sums) {
		s.destroy(seg)
		return nil, fmt.Errorf("%w: attach object %s: its sums are others than those that it had here", ErrNotShareable, v.ID)
	}
	o.dropSegment()
	o.lost, o.seg = nil, seg
	o.settle()
	return o, nil
}

// doubt is an error about shared memory that differs from the announcement.
func doubt(format string, args ...any) error { return fmt.Errorf(format, args...) }
