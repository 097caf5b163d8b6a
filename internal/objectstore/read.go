package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Version returns the version. The first time, a live value is encoded for its length; no sums are computed. The
// version of an object that is still being received is known from the start.
func (o *Object) Version(ctx context.Context) (Version, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Version{}, fmt.Errorf("version of object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for o.sums == nil {
		if err := o.gone(); err != nil {
			return Version{}, err
		}
		if err := o.encoded(ctx); err != nil {
			return Version{}, err
		}
	}
	if o.lost != nil {
		return Version{}, o.lost
	}
	return o.version, nil
}

// Whole waits until all of the object's bytes are here, and returns why they will not be.
func (o *Object) Whole(ctx context.Context) error {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	for o.in != nil {
		if err := awaitDone(ctx, o, o.in.done); err != nil {
			return err
		}
	}
	return o.gone()
}

// encoded makes the encoding of the live value. A repeated encoding is compared with the known sums. The mutex is given
// up meanwhile: afterwards another goroutine may have made the encoding, or the value may be gone.
func (o *Object) encoded(ctx context.Context) error {
	s := o.store
	if o.op != nil {
		return awaitDone(ctx, o, o.op)
	}
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	value := o.value
	s.unlock()
	pieces, err := encode(o.id, value)
	s.mu.Lock()
	if err == nil && !o.measure(total(pieces)) {
		err = changed(o.id)
	}
	if err == nil {
		err = o.compare(pieces)
	}
	if err != nil {
		return err
	}
	own := int64(0)
	for i := 0; i < len(pieces); i += 2 {
		own += int64(len(pieces[i]))
	}
	if o.value == value {
		o.encoding = &encoding{pieces, own}
	}
	return nil
}

// Bytes returns the object's bytes in one buffer that the collector owns. All callers share it: it must not be written
// to, and may be kept for ever. An encoding for which the store has no room is not kept.
func (o *Object) Bytes(ctx context.Context) ([]byte, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("bytes of object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	return o.bytes(ctx)
}

// bytes is Bytes with the mutex held.
func (o *Object) bytes(ctx context.Context) ([]byte, error) {
	for {
		err := o.gone()
		switch {
		case err != nil:
		case o.heap != nil:
			o.touch()
			return o.heap.bytes, nil
		case o.in != nil:
			err = awaitDone(ctx, o, o.in.done)
		case o.op != nil:
			err = awaitDone(ctx, o, o.op)
		case o.file == nil && o.seg == nil && o.encoding == nil:
			err = o.encoded(ctx)
		default:
			if err = o.begin(ctx); err == nil {
				b, err := o.gather(ctx)
				o.end()
				if err != errOtherForm {
					return b, err
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// gather makes the one buffer of the form that costs least. o is in its slot; the mutex is given up while bytes move.
func (o *Object) gather(ctx context.Context) ([]byte, error) {
	s := o.store
	size := o.version.Size
	err := s.makeRoom(ctx, size)
	kept := err == nil
	if err != nil && !errors.Is(err, errNoRoom) {
		return nil, fmt.Errorf("bytes of object %s: %w", o.id, err)
	}
	pieces, file := o.parts(), o.file
	s.unlock()
	buf := make([]byte, size)
	if pieces != nil {
		at := 0
		for _, p := range pieces {
			at += copy(buf[at:], p)
		}
		err = nil
	} else {
		err = o.restore(ctx, file, buf)
	}
	s.mu.Lock()
	if kept {
		s.reserved -= size
	}
	if err != nil {
		s.wake()
		return nil, err
	}
	if kept && !o.released {
		o.heap, o.encoding = &heap{buf}, nil
	} else {
		s.wake()
	}
	return buf, nil
}

// restore reads the file into buf and verifies it. Without the mutex; o is in its slot.
func (o *Object) restore(ctx context.Context, file *spillFile, buf []byte) error {
	s := o.store
	s.mu.Lock()
	h, err := s.openFile(file)
	s.unlock()
	if err == nil {
		for i := range o.sums.crc {
			at, n := o.version.Section(i)
			if err = o.readChunk(ctx, h.file, file.body, i, buf[at:at+int64(n)]); err != nil {
				break
			}
		}
		s.mu.Lock()
		s.closeFile(file, h)
		s.unlock()
	}
	s.mu.Lock()
	defer s.unlock()
	if err != nil {
		return o.broken(ctx, file, err)
	}
	s.count.restored++
	return nil
}

// verifyAll reads the object's bytes from r, where they begin at body, and compares them with the sums.
func (o *Object) verifyAll(ctx context.Context, r io.ReaderAt, body int64) error {
	buf := make([]byte, min(ChunkSize, o.version.Size))
	for i := range o.sums.crc {
		_, n := o.version.Section(i)
		if err := o.readChunk(ctx, r, body, i, buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// readChunk reads chunk i of a file into b and verifies it while it is in the processor's cache. The sums of a
// file's chunks are all known, and stay: they are read without the mutex.
func (o *Object) readChunk(ctx context.Context, r io.ReaderAt, body int64, i int, b []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	at, _ := o.version.Section(i)
	if err := readFull(r, b, body+at); err != nil {
		return err
	}
	return o.version.verify(i, o.sums.crc[i], b)
}
