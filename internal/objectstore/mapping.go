package objectstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Mapping is the bytes of a whole object, contiguous, until Close. They must not be written to.
type Mapping struct {
	bytes atomic.Pointer[[]byte]
	back  lent
}

// Bytes returns the mapped bytes, nil after Close. They begin at an address that is a multiple of 8.
func (m *Mapping) Bytes() []byte {
	if b := m.bytes.Load(); b != nil {
		return *b
	}
	return nil
}

// Close ends the use of the bytes: touching them after it may crash the process. Close again does nothing.
func (m *Mapping) Close() error {
	m.bytes.Store(nil)
	m.back.once.Do(m.back.give)
	return nil
}

func newMapping(b []byte, give func()) *Mapping {
	m := &Mapping{back: lent{give: give}}
	m.bytes.Store(&b)
	return m
}

// Map makes the object's bytes readable in one stretch without copying them where that can be: a segment, a mapped spill
// file (which is verified first), or one buffer of the collector's. Of an object that is still being received it waits
// for the last chunk.
func (o *Object) Map(ctx context.Context) (*Mapping, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("map object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for {
		if err := o.gone(); err != nil {
			return nil, err
		}
		switch {
		case o.in != nil:
			if err := s.await(ctx, o.in.done); err != nil {
				return nil, fmt.Errorf("wait for object %s: %w", o.id, err)
			}
		case o.seg != nil:
			o.touch()
			o.use()
			return newMapping(o.seg.mem[:o.version.Size:o.version.Size], o.unuse), nil
		case o.heap != nil:
			o.touch()
			o.use()
			return newMapping(o.heap.bytes, o.unuse), nil
		case o.file != nil && o.file.mapping != nil:
			return o.shareMapping(o.file), nil
		case o.file != nil && o.file.plain:
			return o.mapBuffer(ctx)
		case o.file != nil:
			if err := o.mapFile(ctx); err != nil && err != errOtherForm {
				return nil, err
			}
		default:
			return o.mapBuffer(ctx)
		}
	}
}

// mapBuffer serves one buffer of the collector's as a mapping.
func (o *Object) mapBuffer(ctx context.Context) (*Mapping, error) {
	b, err := o.bytes(ctx)
	if err != nil {
		return nil, err
	}
	return newMapping(b, func() {}), nil
}

// mapFile verifies the spill file and maps it. Where that cannot be done it marks the file as plain. The mutex is given
// up meanwhile.
func (o *Object) mapFile(ctx context.Context) error {
	s := o.store
	if o.op != nil {
		if err := s.await(ctx, o.op); err != nil {
			return fmt.Errorf("wait for object %s: %w", o.id, err)
		}
		return nil
	}
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	file := o.file
	h, err := s.openFile(file)
	if err != nil {
		return o.broken(ctx, file, err)
	}
	s.unlock()
	var m *fileMapping
	if err = o.verifyAll(ctx, h.file, file.body); err == nil {
		m, err = mapBody(h.file, file.body, o.version.Size)
	}
	s.mu.Lock()
	s.closeFile(file, h)
	switch {
	case errors.Is(err, errNotMappable):
		file.plain = true
		return nil
	case err != nil:
		return o.broken(ctx, file, err)
	}
	file.mapping = m
	s.idle = append(s.idle, file) // until the caller's loop comes to it
	return nil
}

// maxIdle bounds the unused mappings of files that are kept: the next reader need not verify the whole file again.
// They take address space, and memory only as the kernel likes.
const maxIdle = 8

// shareMapping lends a file's mapping. The mutex is held.
func (o *Object) shareMapping(file *spillFile) *Mapping {
	s, m := o.store, file.mapping
	o.touch()
	o.use()
	if m.users++; m.users == 1 {
		s.idle = slices.DeleteFunc(s.idle, func(f *spillFile) bool { return f == file })
	}
	return newMapping(m.body, func() {
		s.mu.Lock()
		if m.users--; m.users == 0 {
			s.idle = append(s.idle, file)
			if o.file != file || s.closed { // the file was given up meanwhile
				s.unmap(file)
			} else if len(s.idle) > maxIdle {
				s.unmap(s.idle[0])
			}
		}
		o.users--
		o.settle()
		s.unlock()
	})
}

// unmap ends an unused mapping of a file, if there is one. The mutex is held.
func (s *Store) unmap(file *spillFile) {
	if m := file.mapping; m != nil && m.users == 0 {
		s.idle = slices.DeleteFunc(s.idle, func(f *spillFile) bool { return f == file })
		file.mapping = nil
		s.later(m.destroy)
	}
}

// fileMapping is a spill file in memory that the kernel manages.
type fileMapping struct {
	mem   []byte // from a page's beginning on
	body  []byte
	users int // guarded by the store's mutex
}

// errNotMappable says that a file has to be read instead.
var errNotMappable = errors.New("not mappable")
