package worklog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/ownfiles"
)

// FolderVariable tells the program of a node where raysys node keeps what it writes.
const FolderVariable = "RAYSYS_LOG_DIR"

// ToDriverVariable with the value off keeps what work writes on other nodes away from its driver.
const ToDriverVariable = "RAYSYS_LOG_TO_DRIVER"

// Supervisor is Output of what raysys node says of its program.
const Supervisor = "raysys"

// markPrefix begins a mark, which a node writes to its own output; a number follows. No text begins so.
const markPrefix = "\x1e\x1eraysys mark "

// keptMark is a mark as the file has it.
type keptMark struct {
	Mark   uint64 `json:"mark"`
	Output string `json:"output"`
}

// Keeper keeps what a program writes. Its methods are not called at the same time.
type Keeper struct {
	file   *File
	pretty bool
	sick   bool // the file could not be written to
}

// NewKeeper keeps lines in the node's files in that folder. pretty says that people read what is shown.
// Where there can be no files it only says what is to be shown, beside the error.
func NewKeeper(folder, node string, pretty bool) (*Keeper, error) {
	f, err := Open(folder, node)
	if err != nil {
		return NoKeeper(pretty), err
	}
	return &Keeper{file: f, pretty: pretty}, nil
}

// NoKeeper says what is to be shown, and keeps nothing.
func NoKeeper(pretty bool) *Keeper { return &Keeper{pretty: pretty} }

// Keep keeps a line of that output, which comes without its end, and returns what is to be shown: nil for nothing. The error is that of the
// files, the first time.
func (k *Keeper) Keep(output string, line []byte) (shown []byte, err error) {
	if i := bytes.Index(line, []byte(markPrefix)); i >= 0 {
		if n, failed := strconv.ParseUint(string(line[i+len(markPrefix):]), 10, 64); failed == nil {
			if i > 0 { // a line that the program has not ended
				shown, err = k.Keep(output, line[:i])
			}
			mark, _ := json.Marshal(keptMark{n, output})
			return shown, errors.Join(err, k.add(mark))
		}
	}
	l, ok := Parse(line)
	if !ok {
		return line, k.add(plain(output, line, time.Now()))
	}
	err = k.add(line)
	if k.pretty {
		return View{Colour: true}.Append(nil, &l), err
	}
	return line, err
}

func (k *Keeper) add(line []byte) error {
	if k.file == nil {
		return nil
	}
	err := k.file.Add(line)
	first := err != nil && !k.sick
	if k.sick = err != nil; first {
		return fmt.Errorf("keep the log: %w: what the program writes from now on is shown, and not kept", err)
	}
	return nil
}

// Close closes the files.
func (k *Keeper) Close() error {
	if k.file == nil {
		return nil
	}
	return k.file.Close()
}

// Folder returns where a node's files are kept: folder, or where that is "" one that is made for this process. gone removes the latter.
func Folder(folder string) (path string, gone func(), err error) {
	if folder != "" {
		return folder, func() {}, nil
	}
	path, remove, err := ownfiles.Temp("raysys-logs-")
	if err != nil {
		return "", func() {}, err
	}
	return path, func() { _ = remove() }, nil // what stays goes at the next start
}

// writeMarks writes a mark to the outputs of this process.
func writeMarks(n uint64) {
	line := []byte(markPrefix + strconv.FormatUint(n, 10) + "\n")
	_, _ = os.Stdout.Write(line)
	_, _ = os.Stderr.Write(line)
}

// isMark reports whether a line of the file is a mark.
func isMark(line []byte) (m keptMark, ok bool) {
	ok = strings.HasPrefix(string(line), `{"mark":`) && json.Unmarshal(line, &m) == nil
	return m, ok
}
