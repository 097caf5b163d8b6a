package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ownfiles"
)

// oldDir is the spill directory that an earlier incarnation of this node left.
type oldDir struct {
	path  string
	lock  io.Closer
	files map[raysys.TaskID]oldFile
	stays bool // it has files that could not be looked at
}

// Found is a file of an earlier incarnation.
type Found struct {
	Version
	Label string // what Persist was given; empty for a spill file
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
		s.config.trouble("look for spill files of earlier incarnations", err)
		return
	}
	for _, n := range names {
		if !ofNode(&s.config, n) {
			continue
		}
		d := &oldDir{path: filepath.Join(s.config.Dir, n), files: map[raysys.TaskID]oldFile{}}
		if err = ownfiles.Folder(d.path); err != nil {
			s.config.trouble("look at the spill files of an earlier incarnation", err)
			continue
		}
		if d.lock, err = s.fs.Lock(filepath.Join(d.path, lockName), true); err != nil {
			if !errors.Is(err, ErrLocked) {
				s.config.trouble("lock the spill files of an earlier incarnation", err)
			}
			continue
		}
		s.read(d)
		s.old = append(s.old, d)
	}
}

// read finds the finished files, and removes those that are not finished, or damaged. What a store did not make stays, and the directory with it.
func (s *Store) read(d *oldDir) {
	names, err := s.fs.List(d.path)
	if err != nil {
		s.config.trouble("list the spill files of an earlier incarnation", err)
		return
	}
	if err := others(d.path, names); err != nil {
		s.config.trouble("look at the spill files of an earlier incarnation", err)
		d.stays = true
	}
	for _, n := range names {
		name := filepath.Join(d.path, n)
		if !ofObject.MatchString(n) {
			continue
		}
		f, err := s.readOld(name)
		switch {
		case err == nil:
			// The same object twice: its spill file was about to be removed when it was persisted.
			if first, twice := d.files[f.version.ID]; twice && (first.label != "" || f.label == "") {
				_ = s.fs.Remove(name)
				continue
			} else if twice {
				s.diskUsed -= first.length
				_ = s.fs.Remove(first.name)
			}
			d.files[f.version.ID] = f
			s.diskUsed += f.length
			continue
		case errors.Is(err, errDamaged):
			s.noteDamaged(n, fmt.Errorf("spill file %s: %w", name, err))
		case !errors.Is(err, fs.ErrInvalid): // the next incarnation may be able to read it
			s.config.trouble("read what an earlier incarnation left", fmt.Errorf("spill file %s: %w", name, err))
			d.stays = true
			continue
		}
		_ = s.fs.Remove(name)
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
	v, label, sums, body, err := readHeader(f, length, s.config.Cluster)
	return oldFile{spillFile{name: name, label: label, body: body, length: length}, v, sums}, err
}

// noteDamaged remembers why a file is of no use, by the object's id, with which its name begins.
func (s *Store) noteDamaged(file string, err error) {
	s.config.trouble("read what an earlier incarnation left", err)
	id, _, _ := strings.Cut(file, "-")
	if s.damaged == nil {
		s.damaged = map[string]error{}
	}
	if len(s.damaged) < maxDamaged {
		s.damaged[id] = err
	}
}

// maxDamaged bounds the damaged files that are remembered.
const maxDamaged = 1 << 10

// Damaged returns why the file that an earlier incarnation had of an object is of no use; nil when none was found.
func (s *Store) Damaged(id raysys.TaskID) error {
	s.mu.Lock()
	defer s.unlock()
	return s.damaged[id.String()]
}

func (c *Config) trouble(what string, err error) {
	if h := c.Hooks.Trouble; h != nil {
		h(what, err)
	}
}

// Recovered returns the objects in files of earlier incarnations: Adopt those that the cluster still wants, Discard
// those that it does not, and Sweep when that is over.
func (s *Store) Recovered() (list []Found) {
	s.mu.Lock()
	defer s.unlock()
	for _, d := range s.old {
		for _, f := range d.files {
			list = append(list, Found{f.version, f.label})
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
		if err == nil {
			f.name = name // a reader may have fetched the object meanwhile: Discard looks for the file under its name all the same
		}
		if err == nil && f.label != "" {
			err = syncDir(s.fs, dir) // before Sweep removes the directory that it came from
		}
		s.mu.Lock()
		if err == nil {
			err = errors.Join(s.usable(ctx), s.vacant(v.ID))
		}
		if err != nil && f.label != "" {
			d.files[v.ID], d.stays = f, true // the next incarnation finds it
			return nil, fmt.Errorf("adopt object %s: %w", v.ID, err)
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
		o.file = &spillFile{name: name, label: f.label, body: f.body, length: f.length}
		o.settle()
		return o, nil
	}
	return nil, fmt.Errorf("%w: no spill file of an earlier incarnation holds %s", raysys.ErrObjectLost, v)
}

// Discard deletes the file of an earlier incarnation.
func (s *Store) Discard(v Version) {
	s.mu.Lock()
	defer s.unlock()
	for _, d := range s.old {
		if f, ok := d.files[v.ID]; ok && f.version == v {
			delete(d.files, v.ID)
			s.diskUsed -= f.length
			s.later(func() { _ = s.fs.Remove(f.name) })
			return
		}
	}
}

// Sweep deletes the spill files of earlier incarnations that were not adopted, and the directories without other files.
// Files with a label stay until Discard.
func (s *Store) Sweep() error {
	var gone []*oldDir
	var names []string
	s.mu.Lock()
	s.old = slices.DeleteFunc(s.old, func(d *oldDir) bool {
		for id, f := range d.files {
			if f.label == "" {
				s.diskUsed -= f.length
				names = append(names, f.name)
				delete(d.files, id)
			}
		}
		empty := len(d.files) == 0 && !d.stays
		if empty {
			gone = append(gone, d)
		}
		return empty
	})
	s.unlock()
	var errs []error
	for _, d := range gone {
		errs = append(errs, removeDir(s.fs, d.path))
		d.lock.Close()
	}
	for _, name := range names {
		if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep spill files of earlier incarnations: %w", err)
	}
	return nil
}
