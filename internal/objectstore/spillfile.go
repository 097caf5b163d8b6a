package objectstore

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
	label  string // what it is kept for; empty: for this process
	body   int64  // where the object's bytes begin
	length int64  // of the whole file

	open    *handle
	mapping *fileMapping // of bytes that were verified; stays for a while after its last use
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
	label      string
	body       int64
	length     int64
}

// create begins a file for an object of size bytes, with the disk for it reserved. A directory that vanished is made
// again.
func (s *Store) create(id raysys.TaskID, attempt uint32, label string, size int64) (*fileWriter, error) {
	w := &fileWriter{fs: s.fs, cluster: s.config.Cluster, label: label, body: bodyOffset(s.config.Cluster, label, size)}
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
		return nil, fmt.Errorf("reserve %d bytes for spill file: %w", w.length, err)
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
		return fmt.Errorf("write spill file: %w", err)
	}
	return nil
}

// fill writes the whole object as source emits it, and returns the sums of its chunks. Small blocks go through one
// buffer.
func (w *fileWriter) fill(ctx context.Context, id raysys.TaskID, source source) ([]uint32, error) {
	var done running
	var buf []byte
	flush := func(b []byte) error {
		for len(b) > 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n := min(len(b), ChunkSize)
			if done.size+int64(n) > w.length-w.body {
				return changed(id)
			}
			if err := w.write(b[:n], done.size); err != nil {
				return err
			}
			done.add(b[:n])
			b = b[n:]
		}
		return nil
	}
	err := source(func(b []byte) error {
		if len(b) < ChunkSize/16 && len(buf)+len(b) <= ChunkSize {
			buf = append(buf, b...)
			return nil
		}
		if err := flush(buf); err != nil {
			return err
		}
		buf = buf[:0]
		return flush(b)
	})
	if err == nil {
		err = flush(buf)
	}
	if err == nil && done.size != w.length-w.body {
		err = changed(id)
	}
	return done.all(), err
}

// commit writes the header, closes the file and gives it its name. A spill file is not synced: the checksums show a file
// that a crash of the host tore. A file with a label is synced, and its directory with it.
func (w *fileWriter) commit(v Version, sums []uint32) (*spillFile, error) {
	err := w.seal(v, sums)
	if err == nil && w.label != "" {
		err = w.file.Sync()
	}
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	return w.publish(err)
}

// seal writes the header.
func (w *fileWriter) seal(v Version, sums []uint32) error {
	head := appendHeader(nil, w.cluster, w.label, v, sums)
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
	if err == nil && w.label != "" {
		if err = syncDir(w.fs, filepath.Dir(w.final)); err != nil {
			_ = w.fs.Remove(w.final)
		}
	}
	if err != nil {
		_ = w.fs.Remove(w.tmp)
		return nil, fmt.Errorf("finish spill file: %w", err)
	}
	return &spillFile{name: w.final, label: w.label, body: w.body, length: w.length}, nil
}

// discard removes the file.
func (w *fileWriter) discard() {
	_ = w.file.Close()
	_ = w.fs.Remove(w.tmp)
}
