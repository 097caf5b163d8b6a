package objectstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// Persist returns when the object's bytes are in a file of this label, and file and directory are synced: they outlive
// the process and a crash of the host. A later incarnation of the node finds the file by Recovered. It is deleted by
// Release and not to make room. Persist again with the same label does nothing.
//
// It returns raysys.ErrNoStore where Config.Dir is not given, and raysys.ErrStoreFull where the disk does not take the
// file.
func (o *Object) Persist(ctx context.Context, label string) error {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("persist object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	switch {
	case s.dir.temp:
		return fmt.Errorf("%w: persist object %s: the node has no directory that outlives its process", raysys.ErrNoStore, o.id)
	case label == "" || len(label) > maxLabel:
		return fmt.Errorf("%w: persist object %s: its label has %d bytes: give 1 to %d", raysys.ErrTooLarge, o.id, len(label), maxLabel)
	}
	for {
		if err := o.gone(); err != nil {
			return err
		}
		switch {
		case o.in != nil:
			if err := s.await(ctx, o.in.done); err != nil {
				return fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.op != nil:
			if err := s.await(ctx, o.op); err != nil {
				return fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.file != nil && o.file.label == label:
			return nil
		default:
			if err := o.persist(ctx, label); err != errOtherForm {
				return err
			}
		}
	}
}

// persist writes the file. The mutex is given up meanwhile.
func (o *Object) persist(ctx context.Context, label string) error {
	s := o.store
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	before := o.file
	err := s.writeFile(ctx, o, label)
	var damaged *damagedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damaged):
		return o.broken(ctx, before, damaged.cause)
	case errors.Is(err, raysys.ErrEncode), errors.Is(err, raysys.ErrReleased), context.Cause(ctx) != nil:
		return fmt.Errorf("persist object %s: %w", o.id, err)
	}
	return fmt.Errorf("%w: persist object %s of %d bytes: %w: "+makeMore, raysys.ErrStoreFull, o.id, o.version.Size, err)
}

// damagedError says that a file which was read to be copied has other bytes than those that were written.
type damagedError struct{ cause error }

func (e *damagedError) Error() string { return e.cause.Error() }
func (e *damagedError) Unwrap() error { return e.cause }

// copyOf emits the bytes of o's file, each chunk verified. o is in its slot.
func (o *Object) copyOf(ctx context.Context, file *spillFile) source {
	return func(emit func([]byte) error) error {
		s := o.store
		s.mu.Lock()
		h, err := s.openFile(file)
		s.unlock()
		if err != nil {
			return &damagedError{err}
		}
		defer func() {
			s.mu.Lock()
			s.closeFile(file, h)
			s.unlock()
		}()
		buf := make([]byte, min(ChunkSize, o.version.Size))
		for i := range o.sums.crc {
			_, n := o.version.Section(i)
			if err := o.readChunk(ctx, h.file, file.body, i, buf[:n]); err != nil {
				return &damagedError{err}
			}
			if err := emit(buf[:n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// Persisted reports whether the object has a file with a label.
func (o *Object) Persisted() bool {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.file != nil && o.file.label != ""
}
