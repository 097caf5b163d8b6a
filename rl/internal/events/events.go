package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scalar is a number under a name.
type Scalar struct {
	Tag   string
	Value float64
}

// File is a file of events. It is for one goroutine.
type File struct{ f *os.File }

// Create begins a file in a folder, which is made where there is none. TensorBoard reads all files of a folder as one run, in the order of their names, which
// begin with a second. So the name of a file begins with a later one than those that are there, also where this host's clock is behind that of an earlier host.
func Create(folder string) (*File, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	now := time.Now()
	second, err := secondAfter(folder, now.Unix())
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // a name that is unknown is empty
	for n := 0; ; n++ {
		name := fmt.Sprintf(eventFiles+"%010d.%s.%d.%d", second, filepath.Base(host), os.Getpid(), now.Nanosecond()+n)
		f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if os.IsExist(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		file := &File{f}
		if err := file.write(bytesField(event(now, 0), 3, []byte("brain.Event:2"))); err != nil {
			f.Close()
			return nil, err
		}
		return file, nil
	}
}

// eventFiles are those that TensorBoard reads of a folder.
const eventFiles = "events.out.tfevents."

// secondAfter is the second, or the first one after those that the names of a folder's files begin with.
func secondAfter(folder string, second int64) (int64, error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), eventFiles); ok {
			digits, _, _ := strings.Cut(name, ".")
			if other, err := strconv.ParseInt(digits, 10, 64); err == nil && other < maxSecond {
				second = max(second, other+1)
			}
		}
	}
	return second, err
}

// maxSecond has as many digits as the names have room for.
const maxSecond = 9_999_999_999

// SetAside moves the files of events of a folder, where it has some, to a folder beside: run.1 or the next that there is not. Nothing else that is there
// moves.
func SetAside(folder string) error {
	folder, err := filepath.Abs(folder) // it may be "."
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !strings.HasPrefix(e.Name(), eventFiles) })
	if len(entries) == 0 {
		return nil
	}
	aside := ""
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s.%d", folder, n)
		if err := os.Mkdir(aside, 0o777); err == nil {
			break
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(folder, e.Name()), filepath.Join(aside, e.Name())))
	}
	return err
}

// Restart says that what follows begins with a step: TensorBoard drops what it has read of this step, and of later ones. The event has a SessionLog, field 7,
// of status START. It comes twice, since the page of TensorBoard takes the first of a folder for its beginning, and drops nothing.
func (f *File) Restart(at time.Time, step int) error {
	start := bytesField(event(at, step), 7, []byte{1 << 3, 1})
	return errors.Join(f.write(start), f.write(start))
}

// Add writes numbers of a step, whole and at once. One that is NaN or infinite is left out.
func (f *File) Add(at time.Time, step int, list ...Scalar) error {
	var summary []byte
	for _, s := range list {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		value := bytesField(nil, 1, []byte(s.Tag))
		value = binary.LittleEndian.AppendUint32(append(value, 2<<3|5), math.Float32bits(float32(s.Value)))
		summary = bytesField(summary, 1, value)
	}
	return f.write(bytesField(event(at, step), 5, summary))
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

func (f *File) write(data []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	record = binary.LittleEndian.AppendUint32(record, masked(record))
	record = append(record, data...)
	record = binary.LittleEndian.AppendUint32(record, masked(data))
	_, err := f.f.Write(record)
	return err
}

// event begins an Event: its wall_time is field 1, its step field 2.
func event(at time.Time, step int) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(float64(at.UnixMicro())/1e6))
	return binary.AppendUvarint(append(b, 2<<3), uint64(step))
}

// bytesField appends a field of protobuf that has a length.
func bytesField(b []byte, field byte, data []byte) []byte {
	return append(binary.AppendUvarint(append(b, field<<3|2), uint64(len(data))), data...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a TFRecord: one of bytes that have checksums in them would be weak.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
