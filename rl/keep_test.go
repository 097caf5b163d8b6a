package rl_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// enough ends a run in one goroutine by a panic, after so many steps of its learner.
func enough(t *testing.T, ctx context.Context, plan rl.Plan, steps int) {
	t.Helper()
	stop := func(n int) {
		if n >= steps {
			panic("enough")
		}
	}
	at.Store(&stop)
	defer at.Store(nil)
	defer func() { _ = recover() }()
	if r, err := watched.Train(ctx, plan); err == nil {
		t.Errorf("the run has ended: %v", r)
	}
}

// goesOn has a run go on to its end, and holds the counters of its checkpoint against what the learner itself has counted: an episode of a bandit is
// one step, and the table allows a step of the learner for two of the environment. The checkpoint lacks the turns that two actors were in, of 64 steps
// each, and the table may be 40 items ahead.
func goesOn(t *testing.T, ctx context.Context, plan rl.Plan) *rl.Run {
	t.Helper()
	var first, last atomic.Int64
	count := func(steps int) {
		first.CompareAndSwap(0, int64(steps))
		last.Store(int64(steps))
	}
	at.Store(&count)
	defer at.Store(nil)
	r, err := watched.Train(ctx, plan)
	if err != nil {
		t.Fatal(err)
	}
	had := int(first.Load()) - 1
	if off := r.Resumed - 2*had; off < -180 || off > 180 {
		t.Errorf("it goes on from step %d, with a learner that has made %d", r.Resumed, had)
	}
	if r.LearnerSteps != int(last.Load()) || r.Weights.Steps != r.LearnerSteps || r.Episodes != r.Steps || r.Steps != plan.Steps {
		t.Errorf("at the end are %d steps of %d, %d episodes, %d steps of the learner with weights of step %d, and the learner has made %d",
			r.Steps, plan.Steps, r.Episodes, r.LearnerSteps, r.Weights.Steps, last.Load())
	}
	return r
}

// TestDir: a run goes on from the files of its folder: without a runtime, on other nodes, and in the other form.
func TestDir(t *testing.T) {
	forms := map[string]func(t *testing.T) (context.Context, int){
		"no runtime": func(t *testing.T) (context.Context, int) { return t.Context(), 1 },
		"one node":   func(t *testing.T) (context.Context, int) { return testkit.New(t, testkit.Nodes(0)).Context(), 2 },
		"nodes":      func(t *testing.T) (context.Context, int) { return testkit.New(t, testkit.Nodes(2)).Context(), 2 },
	}
	for first, begin := range forms {
		for second, goOn := range forms {
			t.Run(first+", then "+second, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "not", "there")
				plan := rl.Plan{Steps: 6000, Dir: dir, Progress: io.Discard}
				ctx, actors := begin(t)
				plan.Actors = actors
				enough(t, ctx, plan, 1500)
				if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err != nil {
					t.Fatal(err)
				}
				before := read(t, filepath.Join(dir, "log.csv"))
				ctx, plan.Actors = goOn(t)
				plan.Seed = 2
				if _, err := watched.Train(ctx, plan); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), dir) {
					t.Errorf("another seed: %v", err)
				}
				plan.Seed = 1
				r := goesOn(t, ctx, plan)
				// Nodes write a checkpoint as often as the disk is quick: the one of the beginning may be the last.
				if r.Resumed == 0 && first == "no runtime" || r.Points[0].Steps <= r.Resumed {
					t.Errorf("it went on from step %d, with the point %+v", r.Resumed, r.Points[0])
				}
				if after := read(t, filepath.Join(dir, "log.csv")); !strings.HasPrefix(after, before) || strings.Count(after, "\n") != strings.Count(before, "\n")+len(r.Points) {
					t.Errorf("%s\nwas, and %d points later it is\n%s", before, len(r.Points), after)
				}
				entries, err := os.ReadDir(dir)
				if err != nil || len(entries) != 1 {
					t.Errorf("the folder of a run that has ended has its log alone: %v %v", entries, err)
				}
			})
		}
	}
}

// TestDirIsDamaged: a checkpoint that was cut or changed is refused, and stays.
func TestDirIsDamaged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "checkpoint")
	plan := rl.Plan{Steps: 3000, Dir: dir, Progress: io.Discard}
	enough(t, t.Context(), plan, 500)
	whole := read(t, file)
	for i := range whole {
		changed := []byte(whole)
		changed[i] ^= 0x20
		for _, data := range []string{string(changed), whole[:i]} {
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := watched.Train(t.Context(), plan); err == nil || !strings.Contains(err.Error(), file) {
				t.Fatalf("byte %d: %v", i, err)
			}
			if read(t, file) != data {
				t.Fatal("the file is another")
			}
		}
	}
}

// TestDirIsUnreadable: where the checkpoint cannot be read it may be whole, and nobody is told to remove it.
func TestDirIsUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := watched.Train(t.Context(), rl.Plan{Steps: 3000, Dir: file, Progress: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "Plan.Dir: ") || strings.Contains(err.Error(), "remove") {
		t.Error(err)
	}
}

// TestNameWithoutRuntime: a run with a name goes on in its program, and its log is never cut: that of an older run is set aside.
func TestNameWithoutRuntime(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.csv")
	plan := rl.Plan{Steps: 3000, Name: t.Name(), Log: log, Progress: io.Discard}
	enough(t, t.Context(), plan, 500)
	first := read(t, log)
	if r := goesOn(t, t.Context(), plan); r.Resumed < 200 {
		t.Fatalf("it went on from step %d", r.Resumed)
	}
	whole := read(t, log)
	if !strings.HasPrefix(whole, first) {
		t.Errorf("%s\nwas, and it is\n%s", first, whole)
	}
	enough(t, t.Context(), plan, 500) // the run has ended: another one
	if err := watched.Forget(t.Context(), plan.Name); err != nil {
		t.Fatal(err)
	}
	if r, err := watched.Train(t.Context(), plan); err != nil || r.Resumed != 0 {
		t.Errorf("a run that was forgotten went on from step %d: %v", r.Resumed, err)
	}
	if diff := cmp.Diff(whole, read(t, strings.TrimSuffix(log, ".csv")+".1.csv")); diff != "" {
		t.Error(diff)
	}
	if second := read(t, strings.TrimSuffix(log, ".csv")+".2.csv"); strings.Count(second, "\n") != strings.Count(first, "\n") {
		t.Errorf("the log of the run that was forgotten is\n%s, want as many lines as\n%s", second, first)
	}
}

// TestOneMoment: a checkpoint has the steps of the environment and of the learner of one moment: a run that is ended again and again makes as many
// steps of the learner as one that is not.
func TestOneMoment(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	plan := rl.Plan{Steps: 20_000, Actors: 2, Name: "moment", Progress: io.Discard}
	for end := 1500; end < 9000; end += 1500 {
		ctx, cancel := context.WithCancel(raysys.Branch(k.Context(), end))
		stop := func(steps int) {
			if steps >= end {
				cancel()
			}
		}
		at.Store(&stop)
		if _, err := watched.Train(ctx, plan); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	at.Store(nil)
	r, err := watched.Train(k.Context(), plan)
	if err != nil || r.Resumed < 1000 || r.LearnerSteps < 9500 || r.LearnerSteps > 10_500 {
		t.Errorf("%v %v: it went on from step %d; want 10,000 steps of the learner", r, err, r.Resumed)
	}
}

func TestWeights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weights")
	w := rl.Weights{Model: "arms \n2 \"x\"", Steps: 17, Params: []float32{0, -1.5, math.MaxFloat32, math.SmallestNonzeroFloat32}}
	if err := (rl.Weights{Model: "older"}).Save(file); err != nil {
		t.Fatal(err)
	}
	if err := w.Save(file); err != nil {
		t.Fatal(err)
	}
	got, err := rl.LoadWeights(file)
	if diff := cmp.Diff(w, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	whole := read(t, file)
	for i := range whole {
		changed := []byte(whole)
		changed[i] ^= 0x20
		for _, data := range []string{string(changed), whole[:i]} {
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if w, err := rl.LoadWeights(file); !errors.Is(err, rl.ErrFile) || !strings.Contains(err.Error(), file) {
				t.Fatalf("byte %d: %v %v", i, w, err)
			}
		}
	}
	if _, err := rl.LoadWeights(file + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := w.Save(filepath.Join(file, "x")); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}
