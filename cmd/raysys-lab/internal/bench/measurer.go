package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A measurer is a child that measures one side whenever its parent tells it to, so that two sides which may not share a
// process are still measured in turn. Its parent writes nanoseconds, one line for each slice, and gets a slice's
// durations back, one line each.

// slice has a measurer's figures of one slice: how many durations fell into each bucket of a hist.
type slice struct {
	Counts map[int]uint64 `json:"counts"`
	Max    time.Duration  `json:"max_ns"`
}

func (s slice) hist() (*hist, error) {
	h := &hist{max: s.Max}
	for i, n := range s.Counts {
		if i < 0 || i >= histBuckets {
			return nil, fmt.Errorf("bucket %d of %d", i, histBuckets)
		}
		h.counts[i] = n
		h.n += n
	}
	return h, nil
}

func sliceOf(h *hist) slice {
	s := slice{map[int]uint64{}, h.max}
	for i, n := range h.counts {
		if n > 0 {
			s.Counts[i] = n
		}
	}
	return s
}

// measureOnDemand is the child's end: it says that it is ready, and measures until its input ends.
func measureOnDemand(ctx context.Context, s side, in io.Reader, out io.Writer) error {
	return answerLines(in, out, func(line string) (string, error) {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		ns, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return "", fmt.Errorf("parent wrote %q, not nanoseconds", line)
		}
		var h hist
		if _, err := s.loop(time.Duration(ns), &h); err != nil {
			return "", err
		}
		found, err := json.Marshal(sliceOf(&h))
		return string(found), err
	})
}

// measure is the parent's end.
func (c *process) measure(d time.Duration) (*hist, error) {
	line, err := c.ask(strconv.FormatInt(int64(d), 10))
	if err != nil {
		return nil, err
	}
	var s slice
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		return nil, fmt.Errorf("read what child measured: %w", err)
	}
	return s.hist()
}

// answerLines is a child that says it is ready, and then answers each line of its input with one.
func answerLines(in io.Reader, out io.Writer, answer func(line string) (string, error)) error {
	if _, err := io.WriteString(out, readyLine); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		s, err := answer(lines.Text())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, s); err != nil {
			return fmt.Errorf("tell parent: %w", err)
		}
	}
	return lines.Err()
}

// ask writes a line to such a child, and returns its answer.
func (c *process) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", fmt.Errorf("tell child: %w", err)
	}
	return c.line()
}
