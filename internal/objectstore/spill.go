package objectstore

import (
	"context"
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

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ownfiles"
)

// errInUse says that an object's bytes are safe on disk, but its memory is in use.
var errInUse = errors.New("in use")

// encode makes the bytes of a value. A panic of the value's own methods becomes an error.
func encode(id raysys.TaskID, v Value) (pieces [][]byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			pieces, err = nil, fmt.Errorf("%w: object %s: its encoding panicked: %v", raysys.ErrEncode, id, r)
		}
	}()
	if v == nil {
		return nil, fmt.Errorf("%w: object %s has no value", raysys.ErrObjectLost, id)
	}
	pieces, err = v.Pieces()
	if err != nil {
		return nil, fmt.Errorf("encode object %s: %w", id, errors.Join(raysys.ErrEncode, err))
	}
	if pieces == nil {
		pieces = [][]byte{}
	}
	return pieces, nil
}

func changed(id raysys.TaskID) error {
	return fmt.Errorf("%w: object %s has other bytes than before: its value was changed after it was handed over, or its own marshaling method is not repeatable", raysys.ErrEncode, id)
}

// reserve bounds the disk space that is left free for other programs where Config.Disk gives no limit.
const reserve = 1 << 30

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
