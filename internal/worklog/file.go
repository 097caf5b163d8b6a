package worklog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/raysys/raysys/internal/ownfiles"
)

// fileLimit is how large a file becomes.
const fileLimit = 8 << 20

// File is what a program wrote: a file and the one before it.
type File struct {
	path, old string
	limit     int64
	f         *os.File
	begins    int64 // the position of its first line
	size      int64 // of its lines
}

// head is the first line of a file.
type head struct {
	Begins int64 `json:"begins"`
}

// paths are those of the node's two files.
func paths(folder, node string) (newer, older string) {
	return filepath.Join(folder, node+".log"), filepath.Join(folder, node+".old.log")
}

// Open opens the files of a node, or makes them. A file by one of their names that was not written by a File is another program's, and stays: that
// is an error, and so is a folder that others may write to.
func Open(folder, node string) (*File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := ownfiles.Unshared(folder, 0o002); err != nil {
		return nil, err
	}
	f := &File{limit: fileLimit}
	f.path, f.old = paths(folder, node)
	if err := replaceable(f.old); err != nil {
		return nil, err
	}
	return f, f.reopen()
}

// replaceable refuses a file that was not written by a File.
func replaceable(path string) error {
	r, err := openReader(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty):
		return nil
	case err != nil:
		return err
	}
	return r.f.Close()
}

// reopen goes on with the file that is there, or begins one.
func (f *File) reopen() error {
	r, err := openReader(f.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty) {
		return f.begin(0)
	}
	if err != nil {
		return err
	}
	end, err := r.lines(0, func([]byte, int64) bool { return true })
	if err = errors.Join(err, r.f.Close()); err != nil {
		return err
	}
	out, err := ownfiles.Open(f.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// What a supervisor that died began to write has no end.
	if err := errors.Join(out.Chmod(0o600), out.Truncate(r.first+end-r.begins)); err != nil {
		return errors.Join(err, out.Close())
	}
	f.f, f.begins, f.size = out, r.begins, end-r.begins
	return nil
}

// renew begins a new file, whose first line is at that position, and keeps the one before.
func (f *File) renew(begins int64) error {
	if err := replaceable(f.old); err != nil {
		return err
	}
	if err := errors.Join(f.f.Close(), os.Rename(f.path, f.old)); err != nil {
		return err
	}
	return f.begin(begins)
}

// begin begins a file where there is none, or an empty one.
func (f *File) begin(begins int64) error {
	out, err := ownfiles.Open(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := out.Seek(0, io.SeekEnd)
	if err == nil && size > 0 { // it has come meanwhile
		err = fmt.Errorf("%s: %w", f.path, errNoLog)
	}
	if err == nil {
		first, _ := json.Marshal(head{begins})
		_, err = out.Write(append(first, '\n'))
	}
	if err == nil {
		err = out.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.f, f.begins, f.size = out, begins, 0
	return nil
}

// Add adds a line, which comes without its end.
func (f *File) Add(line []byte) error {
	if f.size+int64(len(line)) >= f.limit {
		if err := f.renew(f.begins + f.size); err != nil {
			return err
		}
	}
	n, err := f.f.Write(append(line[:len(line):len(line)], '\n'))
	f.size += int64(n)
	return err
}

// Close closes it.
func (f *File) Close() error { return f.f.Close() }

var (
	// errNoLog: the file was not written by a File.
	errNoLog = errors.New("it is no log of raysys node, and stays as it is")
	// errEmpty: nothing was written to it.
	errEmpty = fmt.Errorf("%w: it is empty", errNoLog)
)

// reader reads one of the two files.
type reader struct {
	f      *os.File
	in     *bufio.Reader
	begins int64
	first  int64 // offset of the first line
}

// openFile is a test's where a disk hangs.
var openFile = ownfiles.Open

func openReader(path string) (*reader, error) {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	r := &reader{f: f, in: bufio.NewReaderSize(f, 64<<10)}
	line, err := r.in.ReadBytes('\n')
	h := head{Begins: -1}
	bad := errNoLog
	if len(line) == 0 {
		bad = errEmpty
	}
	if err != nil || json.Unmarshal(line, &h) != nil || h.Begins < 0 || string(line) != fmt.Sprintf("{\"begins\":%d}\n", h.Begins) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, bad), f.Close())
	}
	r.begins, r.first = h.Begins, int64(len(line))
	return r, nil
}

// lines calls visit with each whole line from the position on, until it returns false, and returns the position behind the last.
func (r *reader) lines(from int64, visit func(line []byte, end int64) bool) (int64, error) {
	at := max(from, r.begins)
	if _, err := r.f.Seek(r.first+at-r.begins, io.SeekStart); err != nil {
		return at, err
	}
	r.in.Reset(r.f)
	for {
		line, err := r.in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return at, nil
		case err != nil:
			return at, err
		}
		at += int64(len(line))
		if !visit(line[:len(line)-1], at) {
			return at, nil
		}
	}
}

// read calls visit with each line of the node's files from the position on, with the position behind it, until it returns false. It returns
// the position behind the last line.
func read(folder, node string, from int64, visit func(line []byte, end int64) bool) (int64, error) {
	newer, older := paths(folder, node)
	cur, err := openReader(newer)
	if err != nil {
		return from, err
	}
	defer cur.f.Close()
	if from < cur.begins {
		// The newer was opened first: when it was replaced meanwhile, the older is the same file, and the lines before are gone.
		old, err := openReader(older)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return from, err
		}
		if err == nil {
			defer old.f.Close()
			stopped := false
			if old.begins < cur.begins {
				at, err := old.lines(from, func(line []byte, end int64) bool {
					stopped = !visit(line, end)
					return !stopped
				})
				if err != nil || stopped {
					return at, err
				}
			}
		}
	}
	return cur.lines(from, visit)
}

// end is the position behind the last line that is there.
func end(folder, node string) (int64, error) {
	newer, _ := paths(folder, node)
	r, err := openReader(newer)
	if err != nil {
		return 0, err
	}
	defer r.f.Close()
	info, err := r.f.Stat()
	if err != nil {
		return 0, err
	}
	return r.begins + info.Size() - r.first, nil
}
