package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
)

// player has environments in Python, as a user's grain has them.
type player struct{ process.Vector }

// job is an environment of a row. Record is the file with the steps of Python alone.
type job struct {
	Row                  int
	Name, Python, Record string
}

// report says how far the two were compared. Differs is their first difference.
type report struct {
	Steps, Ends int
	Differs     string
}

var (
	players = grains.Define[player]("testenvs.player")
	play    = grains.Method(players, "play", (*player).play).With(raysys.Deadline(10 * time.Minute))
)

// recorded is a step in Python alone.
type recorded struct {
	Actions struct { // a process.Tensor, which does not travel in JSON
		DType process.DType
		Shape []int
		Data  []byte
	}
	Seen [][3]string // name, type and shape, SHA-256 of the bytes
}

// digest is what alone.py says of a tensor.
func digest(name string, t process.Tensor) [3]string {
	return [3]string{name, t.String(), fmt.Sprintf("%x", sha256.Sum256(t.Data))}
}

// play makes the steps of the record, and compares. Without a record it makes steps until one is refused.
func (p *player) play(ctx context.Context, j job) (r report, err error) {
	if err := p.Start(ctx, rows[j.Row].config(j.Name, j.Python)); err != nil {
		return r, err
	}
	if j.Record == "" {
		return r, p.refused(ctx, &rows[j.Row])
	}
	f, err := os.Open(j.Record)
	if err != nil {
		return r, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); ; r.Steps++ {
		var want recorded
		if err := lines.Decode(&want); errors.Is(err, io.EOF) {
			r.Steps-- // the first line is no step
			return r, nil
		} else if err != nil {
			return r, fmt.Errorf("the record of step %d: %w", r.Steps, err)
		}
		var s process.Steps
		if want.Actions.DType == "" {
			s, err = p.Begin(ctx, seed)
		} else {
			s, err = p.Step(ctx, process.Tensor(want.Actions))
		}
		if err != nil {
			return r, err
		}
		if r.Differs = compare(&s, want.Seen); r.Differs != "" {
			r.Differs = fmt.Sprintf("step %d: %s", r.Steps, r.Differs)
			return r, nil
		}
		for i := range s.Rewards {
			if s.Terminated[i] || s.Truncated[i] {
				r.Ends++
			}
		}
	}
}

// refused makes steps until one is refused.
func (p *player) refused(ctx context.Context, r *row) error {
	var err error
	if r.reset {
		_, err = p.Reset(ctx, seed)
	} else {
		_, err = p.Begin(ctx, seed)
	}
	for i := 0; i < steps && err == nil; i++ {
		_, err = p.Step(ctx, process.Of(make([]int64, 2)))
	}
	return err
}

// compare says what of a step is otherwise than in Python alone.
func compare(s *process.Steps, want [][3]string) string {
	var got [][3]string
	for _, part := range s.Parts {
		got = append(got, digest(part.Name, part.Tensor))
	}
	if len(s.Parts) == 0 {
		got = append(got, digest("observations", s.Observations))
	}
	if s.Rewards != nil {
		got = append(got, digest("rewards", process.Of(s.Rewards)), digest("terminated", process.Of(s.Terminated)), digest("truncated", process.Of(s.Truncated)))
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return want[i][0] + " is missing"
		case i >= len(want):
			return got[i][0] + " is too much"
		case got[i][0] != want[i][0] || got[i][1] != want[i][1]:
			return fmt.Sprintf("%s is %s, and should be %s %s", got[i][0], got[i][1], want[i][0], want[i][1])
		case got[i] != want[i]:
			return got[i][0] + " " + got[i][1] + " has other bytes"
		}
	}
	return ""
}
