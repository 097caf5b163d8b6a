package objectstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/raysys/raysys/internal/ownfiles"
)

const (
	fileSuffix = ".obj"
	tmpSuffix  = ".tmp"
	lockName   = "lock"
)

// spillDir is the directory of this incarnation. It is made when the first file is, so that a node which never spills
// leaves no trace; its lock tells the living from the dead.
type spillDir struct {
	fs   FS
	base string // Config.Dir, or a place below os.TempDir
	temp bool   // nothing in base outlives its process
	name string // of this incarnation in base

	trouble func(what string, err error)

	mu   sync.Mutex // guards dir and lock, and is held while the directory is made
	dir  string
	lock io.Closer
}

// tries bounds how many names are tried for the directory: one is taken where two processes use one name, or a dead
// incarnation left it.
const tries = 1000

func newSpillDir(c *Config) *spillDir {
	d := &spillDir{fs: c.FS, base: c.Dir, name: dirPrefix(c) + fmt.Sprintf("%016x", c.Incarnation), trouble: c.trouble}
	if d.base == "" {
		d.temp, d.base = true, filepath.Join(os.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))
	}
	return d
}

// dirPrefix begins the names of a node's directories. The incarnation follows, and a number where that name is taken.
func dirPrefix(c *Config) string {
	return url.PathEscape(c.Cluster) + "@" + url.PathEscape(string(c.Node)) + "-"
}

// The names that a store gives: to directories, behind dirPrefix or behind that of any node, and to the files in them.
var (
	ofIncarnation = regexp.MustCompile(`^[0-9a-f]{16}(\.[0-9]+)?$`)
	ofAnyNode     = regexp.MustCompile(`^[^/]*@[^/]+-[0-9a-f]{16}(\.[0-9]+)?$`)
	ofObject      = regexp.MustCompile(`^[0-9a-f]{32}-[0-9]+-[0-9]+(\.obj|\.tmp)$`)
)

// ofNode reports whether a directory is one of the node's incarnations, and not of a node whose name begins alike.
func ofNode(c *Config, name string) bool {
	rest, ok := strings.CutPrefix(name, dirPrefix(c))
	return ok && ofIncarnation.MatchString(rest)
}

// path returns the directory, and makes it first; again after it vanished.
func (d *spillDir) path(again bool) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dir != "" && !again {
		return d.dir, nil
	}
	d.unlock()
	if err := d.makeBase(); err != nil {
		return "", fmt.Errorf("make spill directory: %w", err)
	}
	for i := range tries {
		dir := filepath.Join(d.base, d.name)
		if i > 0 {
			dir += "." + strconv.Itoa(i)
		}
		err := d.fs.Mkdir(dir)
		if errors.Is(err, fs.ErrExist) {
			continue // a living process has it, a dead one has left it, or it is something else
		}
		if err != nil {
			return "", fmt.Errorf("make spill directory: %w", err)
		}
		lock, err := d.fs.Lock(filepath.Join(dir, lockName), true)
		if errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // another process has just taken it for a dead one's
		}
		if err != nil {
			return "", fmt.Errorf("lock spill directory: %w", err)
		}
		d.dir, d.lock = dir, lock
		return dir, nil
	}
	return "", fmt.Errorf("make spill directory: %d names beginning with %s are taken in %s: remove old ones", tries, d.name, d.base)
}

func (d *spillDir) unlock() {
	if d.lock != nil {
		d.lock.Close()
		d.lock, d.dir = nil, ""
	}
}

// makeBase makes the directory above. In the place for temporary files, where every user may make one, it refuses a link, one of another user, and
// one that others may write to; and it removes what dead processes left in ours.
func (d *spillDir) makeBase() error {
	if err := d.fs.MkdirAll(d.base); err != nil || !d.temp {
		return err
	}
	if err := errors.Join(ownfiles.Folder(d.base), ownfiles.Unshared(d.base, 0o022)); err != nil {
		return err
	}
	d.removeDead()
	return nil
}

// removeDead removes directories whose processes ended without doing so themselves: those with a name that newSpillDir gives, and a lock file.
func (d *spillDir) removeDead() {
	names, _ := d.fs.List(d.base)
	for _, n := range names {
		if !ofAnyNode.MatchString(n) {
			continue
		}
		dir := filepath.Join(d.base, n)
		err := ownfiles.Folder(dir)
		if err == nil {
			lock, lerr := d.fs.Lock(filepath.Join(dir, lockName), false)
			if lerr != nil {
				continue
			}
			err = removeDir(d.fs, dir)
			lock.Close()
		}
		if err != nil {
			d.trouble("remove the spill files of a dead process", err)
		}
	}
}

// removeDir removes a directory of an incarnation with the files that a store makes. One that has others stays, with those.
func removeDir(f FS, dir string) error {
	names, err := f.List(dir)
	for _, n := range names {
		if ofObject.MatchString(n) {
			err = errors.Join(err, gone(f.Remove(filepath.Join(dir, n))))
		}
	}
	if err = errors.Join(err, others(dir, names)); err != nil {
		return err
	}
	if err := gone(f.Remove(filepath.Join(dir, lockName))); err != nil {
		return err
	}
	if err := gone(f.Remove(dir)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // it is not empty: another process has just locked it, and removes it
}

// gone is err, unless it says that there is nothing to remove.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// others is an error that names what a directory has beside the files of a store; nil where that is nothing.
func others(dir string, names []string) error {
	n, first := 0, ""
	for _, name := range names {
		if name != lockName && !ofObject.MatchString(name) {
			if n++; n == 1 {
				first = name
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s has %d files or folders that raysys did not make, such as %q, and stays: move them away", dir, n, first)
}

// close gives the directory up, with its files where none outlives the process.
func (d *spillDir) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dir == "" {
		return nil
	}
	var err error
	if names, lerr := d.fs.List(d.dir); d.temp || lerr == nil && !holdsFiles(names) {
		if err = removeDir(d.fs, d.dir); err != nil {
			err = fmt.Errorf("remove spill directory: %w", err)
		}
	}
	d.unlock()
	return err
}

func holdsFiles(names []string) bool {
	for _, n := range names {
		if strings.HasSuffix(n, fileSuffix) {
			return true
		}
	}
	return false
}
