package rl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

// pupil counts batches, pulls the first arm, and fails at the batch that it is to fail at.
type pupil struct {
	batches, fail int
}

var errPupil = errors.New("the pupil had to fail")

func (a *pupil) Learner(context.Context, rl.Spec, uint64) (rl.Learner, error) {
	return &pupil{fail: a.fail}, nil
}
func (a *pupil) Policy(rl.Spec) (rl.Policy, error) { return a, nil }
func (a *pupil) Experience() (rl.Experience, error) {
	return rl.Experience{Adder: rl.NStep(1, 1), Table: replay.Table{MaxSize: 10, MaxTimesSampled: 1}, Batch: 1}, nil
}

func (a *pupil) Load(rl.Weights) error                                  { return nil }
func (a *pupil) Act(_ []float32, _ *rand.Rand, action, extra []float32) { action[0] = 0 }

func (a *pupil) Model() string { return "pupil" }
func (a *pupil) Learn(context.Context, rl.Batch) (rl.Learned, error) {
	if a.batches++; a.batches == a.fail {
		return rl.Learned{}, errPupil
	}
	return rl.Learned{Steps: 1, Loss: 1 / float64(a.batches)}, nil
}
func (a *pupil) Weights() []float32             { return nil }
func (a *pupil) MarshalBinary() ([]byte, error) { return nil, nil }
func (a *pupil) UnmarshalBinary([]byte) error   { return nil }

var twoArms, twoArmsFail = twoArmed("two <arms>", 0), twoArmed("two <arms> that fail", 250)

func twoArmed(name string, fail int) *rl.Experiment {
	return rl.Define(name, rl.Setup[int]{
		Env:   func(seed uint64) rl.Env[int] { return envs.Bandit(seed, 1, 0) },
		Agent: &pupil{fail: fail},
	})
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLog(t *testing.T) {
	for _, ext := range []string{"csv", "jsonl"} {
		log := filepath.Join(t.TempDir(), "run."+ext)
		if err := os.WriteFile(log, []byte(strings.Repeat("of an older run\n", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		var progress bytes.Buffer
		run, err := twoArms.Train(context.Background(), rl.Plan{Steps: 500, Every: 100, Log: log, Progress: &progress})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Points) != 5 { // one each 100 steps
			t.Errorf("%d points, want 5", len(run.Points))
		}
		if n := strings.Count(progress.String(), "\n"); n != 5 {
			t.Errorf("%d lines of progress, want one for each of 5 points:\n%s", n, progress.String())
		}
		var table bytes.Buffer
		write := run.WriteCSV
		if ext == "jsonl" {
			write = run.WriteJSONL
		}
		if err := write(&table); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(table.String(), read(t, log)); diff != "" {
			t.Errorf("the log differs from what the run writes:\n%s", diff)
		}
	}
}

// TestLogOfFailedRun: a run that ends in its middle has logged whole lines up to there.
func TestLogOfFailedRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.jsonl")
	if _, err := twoArmsFail.Train(context.Background(), rl.Plan{Steps: 500, Every: 100, Log: log}); !errors.Is(err, errPupil) {
		t.Fatalf("Train: %v, want that the pupil failed", err)
	}
	if points := pointsOf(t, read(t, log)); len(points) != 2 || points[1].Steps != 200 || points[1].Return <= 0 {
		t.Errorf("the log has %+v, want points at 100 and 200 steps", points)
	}
}

// TestLogIsFlushed: a point is in the file before the run goes on.
func TestLogIsFlushed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.csv")
	lines := 0
	each := writer(func() {
		if n := strings.Count(read(t, log), "\n"); n != lines+1 {
			t.Errorf("after %d points the log has %d lines, want a header and these", lines, n)
		}
		lines++
	})
	if _, err := twoArms.Train(context.Background(), rl.Plan{Steps: 300, Every: 100, Log: log, Progress: each}); err != nil || lines != 3 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

type writer func()

func (w writer) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}

func TestLogWithoutFolder(t *testing.T) {
	log := filepath.Join(t.TempDir(), "missing", "run.csv")
	_, err := twoArms.Train(context.Background(), rl.Plan{Steps: 100, Log: log})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), log) {
		t.Errorf("Train: %v, want an error that names %s", err, log)
	}
}

func TestFullLog(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	log := filepath.Join(t.TempDir(), "run.csv")
	if err := os.Symlink("/dev/full", log); err != nil {
		t.Fatal(err)
	}
	if _, err := twoArms.Train(context.Background(), rl.Plan{Steps: 100, Log: log}); err == nil || !strings.Contains(err.Error(), log) {
		t.Errorf("Train: %v, want an error that names %s", err, log)
	}
}

// pointsOf reads lines of JSON.
func pointsOf(t *testing.T, lines string) (points []rl.Point) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var p rl.Point
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		points = append(points, p)
	}
	return points
}

var sameNaN = cmpopts.EquateNaNs()
