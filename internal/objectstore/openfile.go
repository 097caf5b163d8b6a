package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/raysys/raysys"
)

// openFile opens a spill file, or shares a handle that is open: the chunks of an object are asked for one after the
// other. The mutex is held, but for the opening.
func (s *Store) openFile(f *spillFile) (*handle, error) {
	if f.open != nil {
		f.open.users++
		return f.open, nil
	}
	s.unlock()
	file, err := s.fs.Open(f.name)
	if err == nil {
		var length int64
		if length, err = file.Size(); err == nil && length != f.length {
			err = fmt.Errorf("%w: %d bytes long, not %d", errDamaged, length, f.length)
		}
		if err != nil {
			file.Close()
		}
	}
	s.mu.Lock()
	if err != nil {
		return nil, err
	}
	h := &handle{file: file, users: 1}
	if f.open == nil {
		f.open = h
	}
	return h, nil
}

// closeFile ends one use of a handle. The mutex is held.
func (s *Store) closeFile(f *spillFile, h *handle) {
	if h.users--; h.users > 0 {
		return
	}
	if f.open == h {
		f.open = nil
	}
	s.later(func() { h.file.Close() })
}

// broken handles an error with a spill file. A file that is gone or damaged is given up, and with it the object where
// the file was its last form. The mutex is held.
func (o *Object) broken(ctx context.Context, f *spillFile, cause error) error {
	if context.Cause(ctx) != nil {
		return fmt.Errorf("read object %s: %w", o.id, cause)
	}
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(cause, passing) {
			return fmt.Errorf("%w: read object %s: %w", raysys.ErrOverloaded, o.id, cause)
		}
	}
	if errors.Is(cause, fs.ErrNotExist) {
		cause = fmt.Errorf("its spill file was removed by another program: %w", cause)
	}
	cause = fmt.Errorf("spill file %s: %w", f.name, cause)
	if o.file == f {
		o.dropFile()
		o.store.count.lost++
		if h := o.store.config.Hooks.Trouble; h != nil {
			o.store.later(func() { h("read spill file", cause) })
		}
		return o.lose(cause)
	}
	return fmt.Errorf("%w: object %s: %w", raysys.ErrObjectLost, o.id, cause)
}
