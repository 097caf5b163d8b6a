package objectstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/raysys/raysys/internal/ownfiles"
)

// FS has the functions of a file system that the store needs. Names are paths as package os takes them. A test hands in
// one that fails on demand.
type FS interface {
	MkdirAll(dir string) error
	// Mkdir makes a directory that did not exist.
	Mkdir(dir string) error
	// Create makes a file that did not exist.
	Create(name string) (File, error)
	// Open opens a file, and follows no link.
	Open(name string) (File, error)
	Rename(from, to string) error
	// Remove removes a file, or an empty directory.
	Remove(name string) error
	List(dir string) ([]string, error)
	// SyncDir makes the names in a directory outlive a crash of the host.
	SyncDir(dir string) error
	// Space returns the bytes that are free and those there are, where dir is.
	Space(dir string) (free, all int64, err error)
	// Lock holds the lock file name until it is closed or the process ends. It does not wait: ErrLocked. Where there is no such
	// file it makes one, or returns fs.ErrNotExist unless it may.
	Lock(name string, mayMake bool) (io.Closer, error)
}

// File is one open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Reserve makes sure that the first size bytes can be written, where the file system can tell.
	Reserve(size int64) error
	// Sync makes the bytes outlive a crash of the host.
	Sync() error
	// OS returns the file for mapping and sendfile, nil where there is none.
	OS() *os.File
}

// ErrLocked is returned by FS.Lock while another process holds the lock.
var ErrLocked = ownfiles.ErrLocked

// RealFiles is the real file system.
func RealFiles() FS { return disk{} }

type disk struct{}

type diskFile struct{ *os.File }

func (disk) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }
func (disk) Mkdir(dir string) error    { return os.Mkdir(dir, 0o700) }

func (disk) Lock(name string, mayMake bool) (io.Closer, error) { return ownfiles.Lock(name, mayMake) }

func (disk) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (disk) Open(name string) (File, error) {
	f, err := ownfiles.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(name string) error     { return os.Remove(name) }

func (disk) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f diskFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// syncDir syncs the directory of an incarnation, and its name in the directory above.
func syncDir(f FS, dir string) error {
	return errors.Join(f.SyncDir(dir), f.SyncDir(filepath.Dir(dir)))
}

func (f diskFile) OS() *os.File { return f.File }
