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

	mu   sync.Mutex // guards dir and lock, and is held while the directory is made
	dir  string
	lock io.Closer
}

// tries bounds how many names are tried for the directory: one is taken where two processes use one name, or a dead
// incarnation left it.
const tries = 1000

func newSpillDir(c *Config) *spillDir {
	d := &spillDir{fs: c.FS, base: c.Dir, name: dirPrefix(c) + fmt.Sprintf("%016x", c.Incarnation)}
	if d.base == "" {
		d.temp, d.base = true, filepath.Join(os.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))
	}
	return d
}

// dirPrefix begins the names of a node's directories. The incarnation follows, and a number where that name is taken.
func dirPrefix(c *Config) string {
	return url.PathEscape(c.Cluster) + "@" + url.PathEscape(string(c.Node)) + "-"
}

// ofAnyNode has the form of all names of dirPrefix, an incarnation and a number.
var ofAnyNode = regexp.MustCompile(`^[^/]*@[^/]+-[0-9a-f]{16}(\.[0-9]+)?$`)

// ofNode reports whether a directory is one of the node's incarnations, and not of a node whose name begins alike.
func ofNode(c *Config, name string) bool {
	rest, ok := strings.CutPrefix(name, dirPrefix(c))
	if !ok || len(rest) < 16 {
		return false
	}
	if _, err := strconv.ParseUint(rest[:16], 16, 64); err != nil {
		return false
	}
	return len(rest) == 16 || rest[16] == '.'
}

// path returns the directory, and makes it first; again after it vanished.
func (d *spillDir) path(again bool) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dir != "" && !again {
		return d.dir, nil
	}
	d.unlock()
	if d.temp {
		if err := d.safe(); err != nil {
			return "", fmt.Errorf("make spill directory: %w", err)
		}
		d.removeDead()
	}
	for i := range tries {
		dir := filepath.Join(d.base, d.name)
		if i > 0 {
			dir += "." + strconv.Itoa(i)
		}
		if err := d.fs.MkdirAll(dir); err != nil {
			return "", fmt.Errorf("make spill directory: %w", err)
		}
		lock, err := d.fs.Lock(filepath.Join(dir, lockName), true)
		if errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // a living process has it, or another has just removed it
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

// safe makes the base, and refuses one that another user may have put there.
func (d *spillDir) safe() error {
	if err := d.fs.MkdirAll(d.base); err != nil {
		return err
	}
	return ours(d.base)
}

// removeDead removes directories whose processes ended without doing so themselves: those with a name that newSpillDir gives, and a lock file.
func (d *spillDir) removeDead() {
	names, _ := d.fs.List(d.base)
	for _, n := range names {
		if !ofAnyNode.MatchString(n) {
			continue
		}
		dir := filepath.Join(d.base, n)
		if lock, err := d.fs.Lock(filepath.Join(dir, lockName), false); err == nil {
			_ = d.fs.RemoveAll(dir)
			lock.Close()
		}
	}
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
		if err = d.fs.RemoveAll(d.dir); err != nil {
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
