package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/raysys/raysys"
)

// oldDir is the spill directory that an earlier incarnation of this node left.
type oldDir struct {
	path  string
	lock  io.Closer
	files map[raysys.TaskID]oldFile
}

type oldFile struct {
	spillFile
	version Version
	sums    []uint32
}

// recover looks at the directories of earlier incarnations. One whose lock is held belongs to a process that lives, and
// is left alone. Files that cannot be read are treated as missing.
func (s *Store) recover() {
	names, err := s.fs.List(s.config.Dir)
	if err != nil {
		s.trouble("look for spill files of earlier incarnations", err)
		return
	}
	for _, n := range names {
		if !ofNode(&s.config, n) {
			continue
		}
		d := &oldDir{path: filepath.Join(s.config.Dir, n), files: map[raysys.TaskID]oldFile{}}
		if d.lock, err = s.fs.Lock(filepath.Join(d.path, lockName)); err != nil {
			if !errors.Is(err, ErrLocked) {
				s.trouble("lock the spill files of an earlier incarnation", err)
			}
			continue
		}
		s.read(d)
		s.old = append(s.old, d)
	}
}

// read finds the finished files, and removes the rest.
func (s *Store) read(d *oldDir) {
	names, err := s.fs.List(d.path)
	if err != nil {
		s.trouble("list the spill files of an earlier incarnation", err)
		return
	}
	for _, n := range names {
		name := filepath.Join(d.path, n)
		if n == lockName {
			continue
		}
		f, err := s.readOld(name)
		if _, twice := d.files[f.version.ID]; err != nil || twice {
			_ = s.fs.Remove(name)
			continue
		}
		d.files[f.version.ID] = f
		s.diskUsed += f.length
	}
}

func (s *Store) readOld(name string) (o oldFile, err error) {
	if !strings.HasSuffix(name, fileSuffix) {
		return o, fs.ErrInvalid
	}
	f, err := s.fs.Open(name)
	if err != nil {
		return o, err
	}
	defer f.Close()
	length, err := f.Size()
	if err != nil {
		return o, err
	}
	v, sums, body, err := readHeader(f, length, s.config.Cluster)
	return oldFile{spillFile{name: name, body: body, length: length}, v, sums}, err
}

func (s *Store) trouble(what string, err error) {
	if h := s.config.Hooks.Trouble; h != nil {
		h(what, err)
	}
}

// Recovered returns the objects in files of earlier incarnations: Adopt those that the cluster still wants, then Sweep
// the rest.
func (s *Store) Recovered() (list []Version) {
	s.mu.Lock()
	defer s.unlock()
	for _, d := range s.old {
		for _, f := range d.files {
			list = append(list, f.version)
		}
	}
	return list
}

// Adopt takes the file of an earlier incarnation over. Its bytes are verified when they are read.
func (s *Store) Adopt(ctx context.Context, v Version, primary bool) (*Object, error) {
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("adopt object %s: %w", v.ID, err)
	}
	defer s.busy.Done()
	if err := s.vacant(v.ID); err != nil {
		return nil, fmt.Errorf("adopt object %s: %w", v.ID, err)
	}
	for _, d := range s.old {
		f, ok := d.files[v.ID]
		if !ok || f.version != v {
			continue
		}
		delete(d.files, v.ID)
		s.unlock()
		dir, err := s.dir.path(false)
		name := filepath.Join(dir, fmt.Sprintf("%s-%d-%d%s", v.ID, v.Attempt, s.serial.Add(1), fileSuffix))
		if err == nil {
			err = s.fs.Rename(f.name, name)
		}
		s.mu.Lock()
		if err == nil {
			err = errors.Join(s.usable(ctx), s.vacant(v.ID))
		}
		if err != nil {
			s.diskUsed -= f.length
			s.later(func() { _, _ = s.fs.Remove(f.name), s.fs.Remove(name) })
			return nil, fmt.Errorf("adopt object %s: %w", v.ID, err)
		}
		o := s.enlist(v, "recovered")
		o.measure(v.Size)
		o.sums.noteAll(f.sums)
		o.primary = primary
		o.file = &spillFile{name: name, body: f.body, length: f.length}
		o.settle()
		return o, nil
	}
	return nil, fmt.Errorf("%w: no spill file of an earlier incarnation holds %s", raysys.ErrObjectLost, v)
}

// Sweep deletes the files of earlier incarnations that were not adopted.
func (s *Store) Sweep() error {
	s.mu.Lock()
	old := s.old
	s.old = nil
	for _, d := range old {
		for _, f := range d.files {
			s.diskUsed -= f.length
		}
	}
	s.unlock()
	var errs []error
	for _, d := range old {
		errs = append(errs, s.fs.RemoveAll(d.path))
		d.lock.Close()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep spill files of earlier incarnations: %w", err)
	}
	return nil
}
