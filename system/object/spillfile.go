package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/raysys/raysys"
)

// spillFile is a finished file. Its fields past length are guarded by the store's mutex.
type spillFile struct {
	name   string
	body   int64 // where the object's bytes begin
	length int64 // of the whole file

	open    *handle
	mapping *fileMapping // of bytes that were verified; stays a while when nobody looks
	plain   bool         // it cannot be mapped
}

// handle is an open file that several readers share.
type handle struct {
	file  File
	users int
}

// fileWriter is a file being written, under a name that no reader looks for.
type fileWriter struct {
	fs         FS
	tmp, final string
	file       File
	cluster    string
	body       int64
	length     int64
}

// create begins a file for an object of size bytes, with the disk for it reserved. A directory that vanished is made
// again.
func (s *Store) create(id raysys.TaskID, attempt uint32, size int64) (*fileWriter, error) {
	w := &fileWriter{fs: s.fs, cluster: s.config.Cluster, body: bodyOffset(s.config.Cluster, size)}
	w.length = w.body + size
	for again := false; ; again = true {
		dir, err := s.dir.path(again)
		if err != nil {
			return nil, err
		}
		// The serial keeps a file apart from an earlier one of the same object that is about to be removed.
		name := fmt.Sprintf("%s-%d-%d", id, attempt, s.serial.Add(1))
		w.final, w.tmp = filepath.Join(dir, name+fileSuffix), filepath.Join(dir, name+tmpSuffix)
		w.file, err = s.fs.Create(w.tmp)
		if err == nil {
			break
		}
		if again || !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("create spill file: %w", err)
		}
	}
	if err := w.file.Reserve(w.length); err != nil {
		w.discard()
		return nil, fmt.Errorf("reserve %d bytes for spill file %s: %w", w.length, w.tmp, err)
	}
	return w, nil
}

// write writes bytes of the object at an offset in it.
func (w *fileWriter) write(b []byte, at int64) error {
	n, err := w.file.WriteAt(b, w.body+at)
	if err == nil && n < len(b) {
		err = fmt.Errorf("%d of %d bytes written", n, len(b))
	}
	if err != nil {
		return fmt.Errorf("write spill file %s: %w", w.tmp, err)
	}
	return nil
}

// writePieces writes the whole object, and returns its manifest. Many small pieces go through one buffer.
func (w *fileWriter) writePieces(ctx context.Context, id raysys.TaskID, attempt uint32, pieces [][]byte) (Manifest, error) {
	m := NewManifest(id, attempt, pieces...)
	if w.body+m.Size != w.length {
		return m, fmt.Errorf("write spill file %s: the object has %d bytes, not %d: it was changed", w.tmp, m.Size, w.length-w.body)
	}
	var buf []byte
	at := int64(0)
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		err := w.write(buf, at)
		at += int64(len(buf))
		buf = buf[:0]
		return err
	}
	for _, p := range pieces {
		if len(p) < ChunkSize/16 && len(buf)+len(p) <= ChunkSize {
			if buf == nil {
				buf = make([]byte, 0, min(ChunkSize, m.Size))
			}
			buf = append(buf, p...)
			continue
		}
		if err := flush(); err != nil {
			return m, err
		}
		for len(p) > 0 {
			if err := context.Cause(ctx); err != nil {
				return m, err
			}
			n := min(len(p), ChunkSize)
			if err := w.write(p[:n], at); err != nil {
				return m, err
			}
			at += int64(n)
			p = p[n:]
		}
	}
	return m, flush()
}

// commit writes the header, closes the file and gives it its name. There is no fsync: a spill file outlives its process, and
// what a crash of the host tears is found by its checksums.
func (w *fileWriter) commit(m Manifest) (*spillFile, error) {
	err := w.seal(m)
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	return w.publish(err)
}

// seal writes the header.
func (w *fileWriter) seal(m Manifest) error {
	head := appendHeader(nil, w.cluster, m)
	n, err := w.file.WriteAt(head, 0)
	if err == nil && n < len(head) {
		err = fmt.Errorf("%d of %d bytes of the header written", n, len(head))
	}
	return err
}

// publish gives the file its name, unless there was an error already.
func (w *fileWriter) publish(err error) (*spillFile, error) {
	if err == nil {
		err = w.fs.Rename(w.tmp, w.final)
	}
	if err != nil {
		_ = w.fs.Remove(w.tmp)
		return nil, fmt.Errorf("finish spill file %s: %w", w.tmp, err)
	}
	return &spillFile{name: w.final, body: w.body, length: w.length}, nil
}

// discard removes what was written.
func (w *fileWriter) discard() {
	_ = w.file.Close()
	_ = w.fs.Remove(w.tmp)
}
