package worklog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

const (
	// maxRead bounds the lines of one answer, in bytes.
	maxRead = 1 << 20
	// readFor is how long Read waits for the first line.
	readFor = 2 * time.Second
	// maxNames bounds the names that are told when nothing matched.
	maxNames = 20
)

// Query says which of the node's lines are asked for.
type Query struct {
	Driver   string `json:"driver,omitempty"`
	Function string `json:"function,omitempty"`
	Limit    int    `json:"limit,omitempty"`  // the last lines
	Follow   bool   `json:"follow,omitempty"` // from From on, the first ones; when there are none, those that come soon
	From     int64  `json:"from,omitempty"`
}

// Answer has lines.
type Answer struct {
	Lines     []json.RawMessage `json:"lines,omitempty"`
	Matched   int               `json:"matched"`
	Next      int64             `json:"next"` // the position behind them
	Drivers   []string          `json:"drivers,omitempty"`
	Functions []string          `json:"functions,omitempty"`
}

// ErrNotKept: nothing keeps what this process writes.
var ErrNotKept = errors.New("what it writes is not kept: raysys node did not start it")

// Read reads what this process wrote, and those before it.
func (l *Lines) Read(ctx context.Context, q Query) (a Answer, err error) {
	if l.cfg.Folder == "" {
		return a, ErrNotKept
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for until := time.Now().Add(readFor); ; {
		a, err = l.read(q)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w, or its folder %s is gone", ErrNotKept, l.cfg.Folder)
		}
		if err != nil || !q.Follow || len(a.Lines) > 0 || time.Now().After(until) {
			return a, err
		}
		q.From = a.Next
		select {
		case <-tick.C:
		case <-ctx.Done():
			return a, nil
		}
	}
}

func (l *Lines) read(q Query) (a Answer, err error) {
	size := 0
	drivers, functions := map[string]bool{}, map[string]bool{}
	a.Next, err = read(l.cfg.Folder, string(l.cfg.Node), q.From, func(line []byte, _ int64) bool {
		if _, ok := isMark(line); ok {
			return true
		}
		if q.Driver != "" || q.Function != "" {
			x, ok := Parse(line)
			if !ok || !matches(&x, q.Driver, q.Function) {
				note(drivers, x.Driver)
				note(functions, x.Function)
				return true
			}
		}
		a.Matched++
		a.Lines, size = append(a.Lines, bytes.Clone(line)), size+len(line)
		if q.Follow {
			return size < maxRead
		}
		for len(a.Lines) > 0 && (size > maxRead || len(a.Lines) > q.Limit) {
			size -= len(a.Lines[0])
			a.Lines = a.Lines[1:]
		}
		return true
	})
	if a.Matched == 0 {
		a.Drivers, a.Functions = names(drivers), names(functions)
	}
	return a, err
}

func note(set map[string]bool, name string) {
	if name != "" && len(set) < maxNames {
		set[name] = true
	}
}

func names(set map[string]bool) (list []string) {
	for n := range set {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}
