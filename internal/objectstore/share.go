package objectstore

import (
	"context"
	"errors"
	"fmt"
)

// Shared tells another process of this host where an object's bytes are: descriptor FD of process PID. Device, Inode and
// Capacity tell whether that is still the same memory.
type Shared struct {
	PID      int
	FD       int
	Device   uint64
	Inode    uint64
	Capacity int64 // bytes of the segment, of which the object has the first
}

// ErrNotShareable says that an object's bytes cannot be mapped by another process: pull them.
var ErrNotShareable = errors.New("object cannot be shared with another process")

// Share makes the object's bytes mappable by other processes of this user on this host. Where they are in no segment
// yet they are copied into one, once for all receivers; a segment that was shared never changes any more. Without
// memory files, or without room for the segment, it returns ErrNotShareable.
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
			return o.seg.address(int64(len(o.seg.mem))), nil
		case o.known && o.man.Size == 0:
			return Shared{}, fmt.Errorf("%w: object %s has no bytes", ErrNotShareable, o.id)
		case s.noSegments:
			return Shared{}, fmt.Errorf("%w: %w", ErrNotShareable, errNoSegments)
		case o.op != nil:
			if err := s.await(ctx, o.op); err != nil {
				return Shared{}, fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.parts() == nil && o.file == nil || !o.known:
			if err := o.encoded(ctx, true); err != nil {
				return Shared{}, err
			}
		default:
			if err := o.segmented(ctx); err != nil && err != errOtherForm {
				return Shared{}, err
			}
		}
	}
}

// segmented copies the object's bytes into a segment. The mutex is given up while bytes move.
func (o *Object) segmented(ctx context.Context) error {
	s := o.store
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	size := o.man.Size
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
	if pieces != nil {
		at := 0
		for _, p := range pieces {
			at += copy(seg.mem[at:size], p)
		}
	} else {
		err = o.restore(ctx, file, seg.mem[:size])
	}
	s.mu.Lock()
	s.reserved -= int64(len(seg.mem))
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

// Attach maps the bytes that another process of this host shares, read-only, as a copy. It checks that the memory is the
// one that was announced, that it can never shrink, and that its last chunk has the announced checksum. Any doubt is an
// error that matches ErrNotShareable: pull the object instead.
func (s *Store) Attach(ctx context.Context, at Shared, m Manifest) (*Object, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("attach object: %w", err)
	}
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", m.ID, err)
	}
	defer s.busy.Done()
	l := Outline{Manifest: m, Whole: true}
	if err := s.receivable(l); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", m.ID, err)
	}
	s.unlock()
	seg, err := attachSegment(at, m)
	s.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("%w: attach object %s: %w", ErrNotShareable, m.ID, err)
	}
	if err := errors.Join(s.usable(ctx), s.receivable(l)); err != nil {
		s.destroy(seg)
		return nil, fmt.Errorf("attach object %s: %w", m.ID, err)
	}
	o := s.table[m.ID]
	if o == nil {
		o = s.enlist(m.ID, m.Attempt, "attached")
	}
	m.Chunks = append([]uint32(nil), m.Chunks...)
	o.dropSegment()
	o.man, o.known, o.tally, o.mark, o.lost, o.seg = m, true, nil, 0, nil, seg
	o.settle()
	return o, nil
}

// doubt is an error about shared memory that differs from the announcement.
func doubt(format string, args ...any) error { return fmt.Errorf(format, args...) }
