package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FeedVariable names, in a program's environment, the pipe with the inventories of the host's Watcher: the number of its
// descriptor, a colon and its inode, so that a program further down, which inherits the variable alone, does not read from
// a descriptor of its own.
const FeedVariable = "RAYSYS_DEVICES"

const (
	lineVersion = 1
	// maxLine bounds a line: hundreds of devices.
	maxLine = 1 << 20
	// feedLimit bounds the wait for the first line, which is written when the program starts.
	feedLimit = 10 * time.Second
)

// line is an inventory on the pipe: JSON, one a line. Fields may be added; a reader takes those it knows.
type line struct {
	Version int `json:"v"`
	Inventory
}

// Line is the inventory as a Feed reads it, with its end of line.
func (i Inventory) Line() []byte {
	b, err := json.Marshal(line{lineVersion, i})
	if err != nil {
		panic(fmt.Sprintf("encode inventory: %v", err)) // it is strings and numbers
	}
	return append(b, '\n')
}

// parseLine reads what Line wrote. It comes from another process, so that nothing of it is believed: the links fit the
// devices, or it is an error.
func parseLine(b []byte) (Inventory, error) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return Inventory{}, fmt.Errorf("read inventory: %w", err)
	}
	if l.Version < 1 {
		return Inventory{}, errors.New("read inventory: a line without a version")
	}
	if len(l.Links) != len(l.Devices) {
		return Inventory{}, fmt.Errorf("read inventory: %d devices with links of %d", len(l.Devices), len(l.Links))
	}
	uuids := map[string]bool{}
	for i, d := range l.Devices {
		if d.UUID == "" || uuids[d.UUID] || d.Memory < 0 || len(l.Links[i]) != len(l.Devices) {
			return Inventory{}, fmt.Errorf("read inventory: device %d (%q) cannot be meant", i, d.UUID)
		}
		uuids[d.UUID] = true
	}
	return l.Inventory, nil
}

// Feed is the inventory of a Watcher in another process. It is a Source.
type Feed struct {
	from   *os.File
	rest   []byte // what was read beyond the last line
	latest atomic.Pointer[Inventory]
}

// opened is the feed of this process, which has one pipe: a second reader would take lines from the first.
var opened struct {
	mu       sync.Mutex // guards the rest
	variable string
	feed     *Feed
}

// OpenFeed opens the pipe that FeedVariable names and reads the first inventory. It returns nil where the value names no
// pipe of this process, and the same feed for the same value: it stays open for the life of the process.
func OpenFeed(variable string) (*Feed, error) {
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if opened.feed != nil && opened.variable == variable {
		return opened.feed, nil
	}
	from := pipeOf(variable)
	if from == nil {
		return nil, nil
	}
	f, err := newFeed(from)
	if err != nil {
		from.Close()
		return nil, err
	}
	opened.variable, opened.feed = variable, f
	return f, nil
}

func newFeed(from *os.File) (*Feed, error) {
	f := &Feed{from: from}
	if err := from.SetReadDeadline(time.Now().Add(feedLimit)); err != nil {
		return nil, fmt.Errorf("bound the wait for devices: %w", err)
	}
	first, err := f.next()
	if err != nil {
		return nil, fmt.Errorf("devices of the supervisor: %w", err)
	}
	f.latest.Store(&first)
	return f, from.SetReadDeadline(time.Time{})
}

// next reads a line. What came of a line when the deadline ended the wait is kept for the next call.
func (f *Feed) next() (Inventory, error) {
	chunk := make([]byte, 4<<10)
	for {
		if b, rest, ok := bytes.Cut(f.rest, []byte{'\n'}); ok {
			f.rest = rest
			return parseLine(b)
		}
		if len(f.rest) > maxLine {
			return Inventory{}, fmt.Errorf("read inventory: a line of more than %d bytes", maxLine)
		}
		n, err := f.from.Read(chunk)
		f.rest = append(f.rest, chunk[:n]...)
		if n == 0 && err == io.EOF {
			return Inventory{}, io.ErrUnexpectedEOF
		} else if n == 0 && err != nil {
			return Inventory{}, err
		}
	}
}

// Inventory is the latest.
func (f *Feed) Inventory() Inventory { return *f.latest.Load() }

// Run implements Source. It ends with an error when the pipe does, since the devices are not watched any more, or when a line
// cannot be meant or speaks of other devices.
func (f *Feed) Run(ctx context.Context, changed func(Inventory)) error {
	defer context.AfterFunc(ctx, func() { f.from.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		next, err := f.next()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded): // it was for the Run before this
			if err := f.from.SetReadDeadline(time.Time{}); err != nil {
				return fmt.Errorf("devices of the supervisor: %w", err)
			}
			if ctx.Err() != nil { // its deadline may just have been taken away
				return context.Cause(ctx)
			}
			continue
		case err != nil:
			return fmt.Errorf("devices of the supervisor: %w", err)
		case !sameDevices(next, f.Inventory()):
			return errors.New("devices of the supervisor: they are others than at the start")
		}
		f.latest.Store(&next)
		changed(next)
	}
}

func sameDevices(a, b Inventory) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(a, b Device) bool { return a.UUID == b.UUID })
}
