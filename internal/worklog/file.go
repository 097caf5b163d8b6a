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

// Open opens the files of a node, or makes them.
func Open(folder, node string) (*File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	f := &File{limit: fileLimit}
	f.path, f.old = paths(folder, node)
	end, err := f.reopen()
	if err != nil {
		return nil, err
	}
	if f.f == nil {
		return f, f.renew(end)
	}
	return f, nil
}

// reopen goes on with the file that is there. Where it cannot be gone on with, it returns the position of the next.
func (f *File) reopen() (end int64, err error) {
	r, err := openReader(f.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoLog) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	end, err = r.lines(0, func([]byte, int64) bool { return true })
	if err = errors.Join(err, r.f.Close()); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	// What a supervisor that died began to write has no end.
	if err := out.Truncate(r.first + end - r.begins); err != nil {
		return 0, errors.Join(err, out.Close())
	}
	f.f, f.begins, f.size = out, r.begins, end-r.begins
	return end, nil
}

// renew begins a new file, whose first line is at that position.
func (f *File) renew(begins int64) error {
	if f.f != nil {
		if err := errors.Join(f.f.Close(), os.Rename(f.path, f.old)); err != nil {
			return err
		}
	}
	var err error
	if f.f, err = os.OpenFile(f.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}
	first, _ := json.Marshal(head{begins})
	_, err = f.f.Write(append(first, '\n'))
	f.begins, f.size = begins, 0
	return err
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

// errNoLog: the file was not written by a File.
var errNoLog = errors.New("no log of raysys node")

// reader reads one of the two files.
type reader struct {
	f      *os.File
	in     *bufio.Reader
	begins int64
	first  int64 // offset of the first line
}

func openReader(path string) (*reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &reader{f: f, in: bufio.NewReaderSize(f, 64<<10)}
	line, err := r.in.ReadBytes('\n')
	h := head{Begins: -1}
	if err != nil || json.Unmarshal(line, &h) != nil || h.Begins < 0 {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, errNoLog), f.Close())
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
