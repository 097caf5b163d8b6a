package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/raysys/raysys/internal/ownfiles"
	"github.com/raysys/raysys/store"
)

const (
	fileName  = "store.db"
	ownerName = "owner" // the id of the process that has the file open

	// diskFormat is the version of what the buckets hold. A program refuses one that it does not know.
	diskFormat = 1
)

var (
	pairsBucket = []byte("pairs")
	metaBucket  = []byte("meta")
	indexKey    = []byte("index")
	formatKey   = []byte("format")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// disk is the bbolt file under the state.
type disk struct {
	dir string
	db  *bbolt.DB
}

// openDisk opens or makes the file in dir and fills st. Keys that a session held are left out: it ended with its
// process.
func openDisk(dir string, max int, st *state) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, explain(err)
	}
	file := filepath.Join(dir, fileName)
	err := verify(file)
	var db *bbolt.DB
	if err == nil {
		db, err = openFile(file, &bbolt.Options{MaxSize: max})
	}
	if errors.Is(err, berrors.ErrTimeout) {
		owner, _ := os.ReadFile(filepath.Join(dir, ownerName))
		pid := strings.TrimSpace(string(owner))
		if pid == "" {
			pid = "unknown"
		}
		return nil, fmt.Errorf("%w by process %s: end that one, or use another directory", store.ErrInUse, pid)
	}
	if err != nil {
		return nil, explain(err)
	}
	d := &disk{dir: dir, db: db}
	_, err = guard(func() (struct{}, error) { return struct{}{}, d.load(st) })
	if err == nil {
		err = writeOwner(filepath.Join(dir, ownerName))
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(explain(err), db.Close())
	}
	return d, nil
}

// writeOwner writes this process's id. What has that name and no process's id in it is another program's file: that is an error.
func writeOwner(file string) error {
	f, err := ownfiles.Open(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var was [32]byte
	n, err := f.Read(was[:])
	if _, bad := strconv.Atoi(strings.TrimSpace(string(was[:n]))); n > 0 && bad != nil || n == len(was) {
		return fmt.Errorf("%s has something else than the id of a process, and stays as it is: move it away, or use another directory", file)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func openFile(file string, o *bbolt.Options) (*bbolt.DB, error) {
	o.Timeout = time.Millisecond // try once: its holder keeps it
	o.FreelistType = bbolt.FreelistMapType
	o.NoFreelistSync = true // free pages are found by reading the tree, so that a damaged list of them frees nothing
	o.NoStatistics = true
	return guard(func() (*bbolt.DB, error) { return bbolt.Open(file, 0o600, o) })
}

// verify reads everything in a file that is there. bbolt does so too when it opens a file for writing, but on a
// goroutine of its own, where a damaged page would end the process.
func verify(file string) error {
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	db, err := openFile(file, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = guard(func() (struct{}, error) { return struct{}{}, read(db, newState()) })
	return errors.Join(err, db.Close())
}

// guard runs f, in which bbolt may panic or fault on a file whose pages point nowhere.
func guard[T any](f func() (T, error)) (v T, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, r)
		}
	}()
	return f()
}

// explain adds what to do.
func explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: user %d must be able to write there: change its owner, or use another directory", err, os.Getuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG), errors.Is(err, berrors.ErrMaxSizeReached),
		strings.Contains(err.Error(), "file resize error"): // bbolt's, which hides what the system said
		return fmt.Errorf("%w: make room: changes are taken again as soon as there is some", err)
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		if !errors.Is(err, store.ErrCorrupt) {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		return fmt.Errorf("%s: %w: restore it from a copy, or move it away to begin with an empty store", fileName, err)
	}
	return err
}

// load reads the file into st, makes its buckets if there are none, and drops keys that a session held.
func (d *disk) load(st *state) error {
	if err := read(d.db, st); err != nil {
		return err
	}
	if st.index == 0 {
		st.index = 1
		return d.create(st.index)
	}
	if len(st.changes) == 0 {
		return nil
	}
	st.index++
	err := d.write(st.changes, st.index)
	st.changes = nil
	return err
}

// read fills st; its index is 0 when the file is new, and its changes are those keys that a session held, as they
// were.
func read(db *bbolt.DB, st *state) error {
	if info, err := os.Stat(db.Path()); err != nil {
		return err
	} else if tooShort(db, info.Size()) {
		return fmt.Errorf("%w: it has %d bytes and misses its last pages", store.ErrCorrupt, info.Size())
	}
	return db.View(func(tx *bbolt.Tx) error {
		meta, pairs := tx.Bucket(metaBucket), tx.Bucket(pairsBucket)
		if meta == nil && pairs == nil {
			st.index = 0
			return nil
		}
		if meta == nil || pairs == nil || len(meta.Get(indexKey)) != 8 || len(meta.Get(formatKey)) != 8 {
			return fmt.Errorf("%w: it is no store of raysys", store.ErrCorrupt)
		}
		if v := binary.BigEndian.Uint64(meta.Get(formatKey)); v != diskFormat {
			return fmt.Errorf("%w: format %d, this program knows %d", store.ErrTooNew, v, diskFormat)
		}
		if st.index = binary.BigEndian.Uint64(meta.Get(indexKey)); st.index == 0 {
			return fmt.Errorf("%w: its index is 0", store.ErrCorrupt)
		}
		return pairs.ForEach(func(k, v []byte) error {
			p, held, err := decodePair(string(k), v)
			if err != nil {
				return err
			}
			if p.Modify > st.index || p.Create > p.Modify {
				return fmt.Errorf("%w: key %q is of index %d, the store of %d", store.ErrCorrupt, k, p.Modify, st.index)
			}
			if held {
				st.changes = append(st.changes, change{key: p.Key, before: &p})
				return nil
			}
			st.pairs[p.Key] = &p
			st.keys.Insert(p.Key)
			return nil
		})
	})
}

// tooShort reports whether the file ends before its highest page, which would fault when it is read.
func tooShort(db *bbolt.DB, size int64) bool {
	short := false
	_ = db.View(func(tx *bbolt.Tx) error {
		short = tx.Size() > size
		return nil
	})
	return short
}

func (d *disk) create(index uint64) error {
	return d.db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(pairsBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		if err := meta.Put(formatKey, binary.BigEndian.AppendUint64(nil, diskFormat)); err != nil {
			return err
		}
		return meta.Put(indexKey, binary.BigEndian.AppendUint64(nil, index))
	})
}

// write makes changes durable. When it returns ErrUnavailable nothing was written; when it returns ErrUnknownOutcome
// the file must not be used any more.
func (d *disk) write(changes []change, index uint64) error {
	_, err := guard(func() (struct{}, error) {
		return struct{}{}, d.db.Update(func(tx *bbolt.Tx) error {
			pairs := tx.Bucket(pairsBucket)
			for _, c := range changes {
				var err error
				switch {
				case c.ended != nil:
				case c.after == nil:
					err = pairs.Delete([]byte(c.key))
				default:
					err = pairs.Put([]byte(c.key), encodePair(c.after))
				}
				if err != nil {
					return err
				}
			}
			return tx.Bucket(metaBucket).Put(indexKey, binary.BigEndian.AppendUint64(nil, index))
		})
	})
	if err == nil {
		return nil
	}
	// The file decides now: bbolt goes on from its contents.
	_, seen := guard(func() (struct{}, error) {
		return struct{}{}, d.db.View(func(tx *bbolt.Tx) error {
			if binary.BigEndian.Uint64(tx.Bucket(metaBucket).Get(indexKey)) >= index {
				return store.ErrUnknownOutcome
			}
			return nil
		})
	})
	if seen != nil || errors.Is(err, store.ErrCorrupt) {
		return fmt.Errorf("%w: write to %s: %w", store.ErrUnknownOutcome, d.dir, explain(err))
	}
	return fmt.Errorf("%w: write to %s: %w", store.ErrUnavailable, d.dir, explain(err))
}

func (d *disk) close() error {
	if err := d.db.Close(); err != nil {
		return fmt.Errorf("close store in %s: %w", d.dir, err)
	}
	return nil
}

// A pair on disk: create, modify, 1 if a session holds it, checksum of key and all of that and the value, value.
const pairHead = 8 + 8 + 1 + 4

func encodePair(p *store.Pair) []byte {
	b := make([]byte, 0, pairHead+len(p.Value))
	b = binary.BigEndian.AppendUint64(b, p.Create)
	b = binary.BigEndian.AppendUint64(b, p.Modify)
	flag := byte(0)
	if p.Session != "" {
		flag = 1
	}
	b = append(b, flag)
	b = binary.BigEndian.AppendUint32(b, pairSum(p.Key, b, p.Value))
	return append(b, p.Value...)
}

func decodePair(key string, b []byte) (p store.Pair, held bool, err error) {
	if len(b) < pairHead || pairSum(key, b[:pairHead-4], b[pairHead:]) != binary.BigEndian.Uint32(b[pairHead-4:]) {
		return p, false, fmt.Errorf("%w: the checksum of key %q does not match", store.ErrCorrupt, key)
	}
	return store.Pair{
		Key:    key,
		Create: binary.BigEndian.Uint64(b),
		Modify: binary.BigEndian.Uint64(b[8:]),
		Value:  append([]byte(nil), b[pairHead:]...),
	}, b[16]&1 != 0, nil
}

func pairSum(key string, head, value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, []byte(key))
	return crc32.Update(crc32.Update(sum, castagnoli, head), castagnoli, value)
}

// syncDir makes the file's name durable. Where folders cannot be synced there is nothing to do.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}
