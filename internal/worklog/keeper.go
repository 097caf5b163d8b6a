package worklog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// keptMark is a mark as the file has it.
type keptMark struct {
	Mark   uint64 `json:"mark"`
	Output string `json:"output"`
}

// Keeper keeps what a program writes. Its methods are not called at the same time.
type Keeper struct {
	mark   Mark
	file   *File
	pretty bool
	sick   bool // the file could not be written to
}

// NewKeeper keeps lines in the node's files in that folder. pretty says that people read what is shown.
// Where there can be no files it only says what is to be shown, beside the error.
func NewKeeper(folder, node string, pretty bool) (*Keeper, error) {
	k := NoKeeper(pretty)
	f, err := Open(folder, node)
	if err == nil {
		k.file = f
	}
	return k, err
}

// NoKeeper says what is to be shown, and keeps nothing.
func NoKeeper(pretty bool) *Keeper { return &Keeper{mark: newMark(), pretty: pretty} }

// Mark is that of the lines that the node itself writes.
func (k *Keeper) Mark() Mark { return k.mark }

// Keep keeps a line of that output, which comes without its end, and returns what is to be shown: nil for nothing. A line without the mark is plain
// output, also one that looks like a line of a log. The error is that of the files, the first time.
func (k *Keeper) Keep(output string, line []byte) (shown []byte, err error) {
	before, own, marked := k.mark.cut(line)
	if !marked {
		return line, k.add(plain(output, line, time.Now()))
	}
	if len(before) == 0 {
		return k.keepOwn(output, own)
	}
	err = k.add(plain(output, before, time.Now())) // a line that the program has not ended
	shown, failed := k.keepOwn(output, own)
	return bytes.TrimSuffix(slices.Concat(before, []byte{'\n'}, shown), []byte{'\n'}), errors.Join(err, failed)
}

// keepOwn keeps what the node itself has written.
func (k *Keeper) keepOwn(output string, line []byte) (shown []byte, err error) {
	if n, err := strconv.ParseUint(string(line), 10, 64); err == nil {
		mark, _ := json.Marshal(keptMark{n, output})
		return nil, k.add(mark)
	}
	if secret, ok := bytes.CutPrefix(line, []byte(unkept)); ok {
		return secret, nil
	}
	l, ok := Parse(line)
	if !ok {
		return line, k.add(plain(output, line, time.Now()))
	}
	if err = k.add(line); k.pretty {
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

// isMark reports whether a line of the file is a mark.
func isMark(line []byte) (m keptMark, ok bool) {
	ok = strings.HasPrefix(string(line), `{"mark":`) && json.Unmarshal(line, &m) == nil
	return m, ok
}
