package rl

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// field returns the fields of a number of a protobuf message, each as its bytes, or as those of its number.
func field(b []byte, want protowire.Number) (list [][]byte) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		value, size := b[n:], protowire.ConsumeFieldValue(num, typ, b[n:])
		value = value[:size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if num == want {
			list = append(list, value)
		}
		b = b[n+size:]
	}
	return list
}

// stepsOf reads the events of a folder as the page of TensorBoard does, file by file: the steps at which the points of training are, where a SessionLog of status
// START that is not the first one has dropped those of its step and of later ones.
func stepsOf(t *testing.T, folder string) (steps []int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*")) // in order
	if err != nil {
		t.Fatal(err)
	}
	sessions := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			n := binary.LittleEndian.Uint64(b)
			event := b[12 : 12+n]
			b = b[16+n:]
			at, _ := protowire.ConsumeVarint(field(event, 2)[0])
			for _, session := range field(event, 7) {
				if status := field(session, 1); len(status) != 1 || status[0][0] != 1 {
					t.Fatalf("a SessionLog of status %v", status)
				}
				for sessions++; sessions > 1 && len(steps) > 0 && steps[len(steps)-1] >= int(at); {
					steps = steps[:len(steps)-1]
				}
			}
			for _, summary := range field(event, 5) {
				for _, value := range field(summary, 1) {
					if string(field(value, 1)[0]) == "return/training" {
						steps = append(steps, int(at))
					}
				}
			}
		}
	}
	return steps
}

// TestEventsGoOn: TensorBoard has each point of a run that goes on once, those before the checkpoint and those that came again. One that begins anew leaves the
// events of the older run in a folder beside, and nothing else of what is there.
func TestEventsGoOn(t *testing.T) {
	plan := Plan{Steps: 1000, TensorBoard: filepath.Join(t.TempDir(), "lift"), Progress: io.Discard}
	train := func(from int, points ...int) {
		t.Helper()
		r, err := newRecord("x", &plan, &Point{Steps: from})
		if err != nil {
			t.Fatal(err)
		}
		for _, steps := range points {
			err = errors.Join(err, r.add(Point{Steps: steps, Return: float64(from), Evaluated: math.NaN(), Loss: math.NaN()}))
		}
		if err = errors.Join(err, r.close()); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(plan.TensorBoard, "log.csv")
	train(0, 100, 200, 300, 400)
	train(200, 300, 400, 500) // the checkpoint is that of the point at 200
	train(450, 500, 600)
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := stepsOf(t, plan.TensorBoard), []int{100, 200, 300, 400, 500, 600}; !reflect.DeepEqual(got, want) {
		t.Errorf("TensorBoard has points at %v, want %v", got, want)
	}
	if python := os.Getenv("RAYSYS_PYTHON"); python != "" && exec.Command(python, "-c", "import tensorboard").Run() == nil {
		const read = `import sys
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util.tensor_util import make_ndarray
a = event_accumulator.EventAccumulator(sys.argv[1]); a.Reload()
print([(e.step, int(e.value)) for e in a.Scalars("return/training")])
a = plugin_event_accumulator.EventAccumulator(sys.argv[1]); a.Reload() # of the page
print([(e.step, int(make_ndarray(e.tensor_proto))) for e in a.Tensors("return/training")])`
		out, err := exec.Command(python, "-c", read, plan.TensorBoard).Output()
		if want := "[(100, 0), (200, 0), (300, 200), (400, 200), (500, 450), (600, 450)]\n"; err != nil || string(out) != want+want {
			t.Errorf("TensorBoard reads %s %v, want %s twice", out, err, want)
		}
	}
	train(0, 100)
	train(0, 200, 300)
	for folder, want := range map[string][]int{"": {200, 300}, ".1": {100, 200, 300, 400, 500, 600}, ".2": {100}, ".3": nil} {
		if got := stepsOf(t, plan.TensorBoard+folder); !reflect.DeepEqual(got, want) {
			t.Errorf("folder %q has points at %v, want %v", folder, got, want)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
