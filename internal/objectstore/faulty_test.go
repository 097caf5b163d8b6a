package objectstore_test

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/raysys/raysys/internal/objectstore"
)

// fault is what a faulty file system does to one call: an error, or bytes.
type fault func(op, name string) error

// faultyFS is the real file system, with faults.
type faultyFS struct {
	objectstore.FS
	mu    sync.Mutex
	fault fault
	room  int64 // bytes that can still be written; below zero without end
	flip  bool  // a bit of what is read is another
	opens int
	plain bool // files that are no files of the system
}

func newFaulty() *faultyFS { return &faultyFS{FS: objectstore.RealFS, room: -1} }

func (f *faultyFS) set(do func(f *faultyFS)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

func (f *faultyFS) check(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	return f.fault(op, name)
}

func (f *faultyFS) MkdirAll(dir string) error {
	if err := f.check("mkdir", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir)
}

func (f *faultyFS) Create(name string) (objectstore.File, error) {
	if err := f.check("create", name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return &faultyFile{file, f, name}, err
}

func (f *faultyFS) Open(name string) (objectstore.File, error) {
	if err := f.check("open", name); err != nil {
		return nil, err
	}
	f.set(func(f *faultyFS) { f.opens++ })
	file, err := f.FS.Open(name)
	return &faultyFile{file, f, name}, err
}

func (f *faultyFS) Rename(from, to string) error {
	if err := f.check("rename", from); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *faultyFS) SyncDir(dir string) error {
	if err := f.check("syncdir", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f *faultyFS) Lock(name string, mayMake bool) (io.Closer, error) {
	if err := f.check("lock", name); err != nil {
		return nil, err
	}
	return f.FS.Lock(name, mayMake)
}

func (f *faultyFS) Space(dir string) (int64, int64, error) {
	if err := f.check("space", dir); err != nil {
		return 0, 0, err
	}
	return f.FS.Space(dir)
}

type faultyFile struct {
	objectstore.File
	fs   *faultyFS
	name string
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.fs.check("read", f.name); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(b, at)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.flip && n > 0 {
		b[n/2] ^= 4
	}
	return n, err
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fs.check("write", f.name); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	room := f.fs.room
	if room >= 0 {
		f.fs.room = max(0, room-int64(len(b)))
	}
	f.fs.mu.Unlock()
	if room >= 0 && room < int64(len(b)) {
		return 0, errNoSpace
	}
	return f.File.WriteAt(b, at)
}

func (f *faultyFile) Reserve(n int64) error {
	if err := f.fs.check("reserve", f.name); err != nil {
		return err
	}
	return f.File.Reserve(n)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.check("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) OS() *os.File {
	if f.fs.plain {
		return nil
	}
	return f.File.OS()
}

var errNoSpace = errors.New("no space left on the device of the test")

// tooManyFiles passes, and says nothing about the file.
const tooManyFiles = syscall.EMFILE

// gate stops the first operation of a kind until it is opened.
func (f *faultyFS) gate(kind string) (started, goOn chan struct{}) {
	started, goOn = make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.fault = func(op, _ string) error {
		if op == kind {
			once.Do(func() { close(started); f.mu.Unlock(); <-goOn; f.mu.Lock() })
		}
		return nil
	}
	return started, goOn
}
