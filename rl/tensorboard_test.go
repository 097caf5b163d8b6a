package rl_test

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
)

// readBoard prints the numbers of a folder, by TensorBoard's own reader, as JSON: tag to steps and values.
const readBoard = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
a.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in a.Scalars(tag)] for tag in a.Tags()["scalars"]}))
`

// TestTensorBoard: TensorBoard reads the points of a run as they are in the Run, and those of a run that goes on from two files. It needs a Python with
// tensorboard 2.20.0; rl/internal/events tests the format without one.
func TestTensorBoard(t *testing.T) {
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import tensorboard").CombinedOutput(); err != nil {
		t.Skipf("%s has no tensorboard: RAYSYS_PYTHON names a Python that has it (%v %.200s)", python, err, b)
	}
	plan := rl.Plan{Steps: 2000, Every: 250, Evaluate: true, Name: "board", TensorBoard: filepath.Join(t.TempDir(), "run"), Progress: io.Discard}
	var points []rl.Point
	for _, plan.Until = range []int{1000, 0} {
		r, err := twoArms.Train(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, r.Points...)
	}
	out, err := exec.Command(python, "-c", readBoard, plan.TensorBoard).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var got map[string][][2]float64
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for tag, of := range map[string]func(*rl.Point) float64{
		"return/training":  func(p *rl.Point) float64 { return p.Return },
		"return/evaluated": func(p *rl.Point) float64 { return p.Evaluated },
		"loss":             func(p *rl.Point) float64 { return p.Loss },
		"episodes":         func(p *rl.Point) float64 { return float64(p.Episodes) },
		"learner/steps":    func(p *rl.Point) float64 { return float64(p.LearnerSteps) },
		"learner/age":      func(p *rl.Point) float64 { return float64(p.Age) },
		"seconds":          func(p *rl.Point) float64 { return p.Seconds },
	} {
		var want [][2]float64
		for i := range points {
			if x := of(&points[i]); !math.IsNaN(x) {
				want = append(want, [2]float64{float64(points[i].Steps), x})
			}
		}
		same := len(want) == len(got[tag]) && len(want) >= 4
		for i := range want {
			same = same && got[tag][i][0] == want[i][0] && got[tag][i][1] == float64(float32(want[i][1]))
		}
		if !same {
			t.Errorf("%s: TensorBoard reads\n%v, want\n%v", tag, got[tag], want)
		}
	}
}

// TestNoFolder: a folder that cannot be made is an error that names the field.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := twoArms.Train(t.Context(), rl.Plan{Steps: 100, TensorBoard: file, Progress: io.Discard}); err == nil || !strings.Contains(err.Error(), "Plan.TensorBoard: ") {
		t.Error(err)
	}
}
