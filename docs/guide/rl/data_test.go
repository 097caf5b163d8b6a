package rl_test

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/testkit"
)

//go:embed data/*.py
var scripts embed.FS

// part is what a script is asked for.
type part struct {
	File string   `json:"file"`
	Keys []string `json:"keys"`
	At   []int    `json:"at"` // the cursor: Next of the last answer, nil at the beginning
	N    int      `json:"n"`  // rows at most
}

// steps is an answer: a row of each array is a step of an episode.
type steps struct {
	Obs        process.Tensor `json:"obs"`
	Actions    process.Tensor `json:"actions"`
	Rewards    process.Tensor `json:"rewards"`
	After      process.Tensor `json:"after"` // the observation after the step
	Terminated process.Tensor `json:"terminated"`
	Next       []int          `json:"next"` // nil at the end
}

// format is a kind of grains that read a format.
type format[R any] struct {
	kind process.Kind
	rows grains.Func[process.Child, part, R]
}

func reads[R any](name, script string, frame int) format[R] {
	text, err := scripts.ReadFile("data/" + script)
	if err != nil {
		panic(err)
	}
	kind := process.Define(name, process.Config{Script: string(text), MaxFrame: frame})
	return format[R]{kind, process.Method[part, R](kind, "rows").With(raysys.Deadline(5 * time.Minute))} // it may import TensorFlow
}

var (
	ofArrays      = reads[steps]("guide.arrays", "arrays.py", 1<<20)
	ofSafetensors = reads[steps]("guide.safetensors", "safetensors.py", 1<<20)
	ofMinari      = reads[steps]("guide.minari", "minari.py", 1<<20)
	ofTFRecord    = reads[steps]("guide.tfrecord", "tfrecord.py", 1<<20)
	ofRLDS        = reads[steps]("guide.rlds", "rlds.py", 1<<20)
)

// read puts the rows of a file, from p.At on, and returns where it is.
func read(ctx context.Context, f format[steps], p part, put func([]rl.Trajectory) error) ([]int, error) {
	child, died := f.kind.Get(p.File), 0
	for {
		s, err := f.rows.Call(ctx, child, p).Get(ctx)
		switch {
		case errors.Is(err, raysys.ErrTooLarge) && p.N > 1:
			p.N /= 2 // the answer is beyond MaxFrame
			continue
		case errors.Is(err, process.ErrExited) && died < 3:
			died++ // the next call starts another child, which goes on at p.At
			continue
		case err != nil:
			return p.At, err
		}
		items, err := s.items()
		if err == nil {
			err = put(items) // nothing is read meanwhile
		}
		if err != nil || s.Next == nil {
			return p.At, err
		}
		p.At, died = s.Next, 0
	}
}

// items makes a trajectory of each step: what learners of package rl sample.
func (s steps) items() ([]rl.Trajectory, error) {
	var columns [5][]float32
	for i, t := range []process.Tensor{s.Obs, s.After, s.Actions, s.Rewards, s.Terminated} {
		var err error
		if columns[i], err = floats(t); err != nil {
			return nil, err
		}
	}
	obs, after, actions, rewards, terminated := columns[0], columns[1], columns[2], columns[3], columns[4]
	items := make([]rl.Trajectory, len(rewards))
	size := len(obs) / max(1, len(items))
	if len(obs) != size*len(items) || len(after) != len(obs) || len(actions) != len(items) || len(terminated) != len(items) {
		return nil, fmt.Errorf("%w: %v, %v, %v, %v and %v are not of as many steps", process.ErrTensor, s.Obs, s.After, s.Actions, s.Rewards, s.Terminated)
	}
	for i := range items {
		items[i] = rl.Trajectory{
			Obs: slices.Concat(obs[i*size:][:size], after[i*size:][:size]), Actions: actions[i : i+1], Rewards: rewards[i : i+1],
			Discounts: []float32{0.99 * (1 - terminated[i])},
		}
	}
	return items, nil
}

// floats makes float32 of elements of any type: those of float64 and of large integers are rounded.
func floats(t process.Tensor) ([]float32, error) {
	switch t.DType {
	case "":
		return nil, nil // no steps
	case process.Float64:
		return rounded[float64](t)
	case process.Int64:
		return rounded[int64](t)
	case process.Int32:
		return rounded[int32](t)
	case process.Bool, process.Uint8: // bytes of 0 and 1 are both
		return rounded[uint8](process.Tensor{DType: process.Uint8, Shape: t.Shape, Data: t.Data})
	}
	return process.Values[float32](t)
}

func rounded[T float64 | int64 | int32 | uint8](t process.Tensor) ([]float32, error) {
	values, err := process.Values[T](t)
	list := make([]float32, len(values))
	for i, v := range values {
		list[i] = float32(v)
	}
	return list, err
}

var offline = replay.Define[rl.Trajectory]("guide.offline", replay.Config{Tables: []replay.Table{{
	Name: "train", MaxSize: 1000, Sampler: replay.FIFO, MaxTimesSampled: 1, Limiter: replay.Queue(20),
}}})

var keys = []string{"obs", "actions", "rewards", "after", "terminated"}

// alone is what Python alone reads of a data set.
type alone struct {
	File   string `json:"file"`
	Arrays map[string]struct {
		DType process.DType `json:"dtype"`
		Shape []int         `json:"shape"`
		Data  []byte        `json:"data"`
	} `json:"arrays"`
}

func (a alone) tensor(key string) process.Tensor {
	v := a.Arrays[key]
	return process.Tensor{DType: v.DType, Shape: v.Shape, Data: v.Data}
}

// makes writes a data set of a format by its own library.
func makes(t *testing.T, form, what string) (a alone) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("MINARI_DATASETS_PATH", folder)
	out, err := exec.Command(cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3"), "testdata/data.py", form, folder, what).Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Logf("%s", e.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &a); err != nil {
		t.Fatalf("%v: %.200s", err, out)
	}
	return a
}

// forms are the data sets of the tests: the library that writes one, what it needs, and the script that reads it.
var forms = []struct {
	name, needs string
	reads       format[steps]
	dies        grains.Act0[process.Child]
}{
	{"npz", "numpy", ofArrays, arraysDie},
	{"memmap", "numpy", ofArrays, arraysDie},
	{"safetensors", "numpy, safetensors", ofSafetensors, dying(ofSafetensors.kind)},
	{"minari", "minari, h5py", ofMinari, dying(ofMinari.kind)},
	{"tfrecord", "tensorflow", ofTFRecord, dying(ofTFRecord.kind)},
	{"rlds", "tensorflow_datasets", ofRLDS, dying(ofRLDS.kind)},
}

var arraysDie = dying(ofArrays.kind)

// TestDataSteps: what is read in parts into a replay table is what Python alone reads, each step once and in its order, also where the child dies in
// between. No more is read than the table's limiter takes.
func TestDataSteps(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			needs(t, form.needs)
			want, ctx := makes(t, form.name, "steps"), testkit.New(t).Context()
			buffer, handed, done := offline.Get(form.name), atomic.Int64{}, make(chan error, 1)
			p := part{File: want.File, Keys: keys, N: 7}
			go func() {
				_, err := read(ctx, form.reads, p, func(items []rl.Trajectory) error {
					handed.Add(int64(len(items)))
					return buffer.Insert(ctx, "train", items, nil)
				})
				done <- err
			}()
			testkit.Eventually(t, 5*time.Minute, "the reader waits for the limiter", func() bool {
				if len(done) > 0 {
					t.Fatal(<-done)
				}
				info, err := buffer.Info(ctx)
				return err == nil && info.Shards[0].Tables[0].WaitingInserts > 0
			})
			if n := handed.Load(); n < 20 || n > 27 {
				t.Errorf("%d steps were read, and the table takes 20", n)
			}
			if _, err := form.dies.Call(ctx, form.reads.kind.Get(want.File)).Get(ctx); err != nil {
				t.Fatal(err)
			}
			var got [5][]float32
			for range want.Arrays["rewards"].Shape[0] {
				batch, err := buffer.Sample(ctx, "train", 1)
				if err != nil {
					t.Fatal(err)
				}
				s := batch.Steps[0]
				for i, list := range [][]float32{s.Obs[:4], s.Actions, s.Rewards, s.Obs[4:], {1 - s.Discounts[0]/0.99}} {
					got[i] = append(got[i], list...)
				}
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(30 * time.Second):
				t.Error("more is read than there is")
			}
			for i, k := range keys {
				w, err := floats(want.tensor(k))
				if err != nil || !bytes.Equal(process.Of(got[i]).Data, process.Of(w).Data) {
					t.Errorf("the array %s is another, %v", k, err)
				}
			}
		})
	}
}

// typed is an array of each type that a Tensor has.
type typed struct {
	F    process.Tensor `json:"float32"`
	D    process.Tensor `json:"float64"`
	I    process.Tensor `json:"int32"`
	L    process.Tensor `json:"int64"`
	U    process.Tensor `json:"uint8"`
	B    process.Tensor `json:"bool"`
	Next []int          `json:"next"`
}

var typedForms = map[string]format[typed]{
	"npz":         reads[typed]("guide.typed.arrays", "arrays.py", 1<<20),
	"safetensors": reads[typed]("guide.typed.safetensors", "safetensors.py", 1<<20),
	"tfrecord":    reads[typed]("guide.typed.tfrecord", "tfrecord.py", 1<<20),
}

// TestDataTypes: arrays of each type come with their bytes, whatever the bits are.
func TestDataTypes(t *testing.T) {
	for _, form := range forms[:5] {
		f, ok := typedForms[strings.Replace(form.name, "memmap", "npz", 1)]
		if !ok {
			continue
		}
		t.Run(form.name, func(t *testing.T) {
			needs(t, form.needs)
			want, ctx := makes(t, form.name, "types"), testkit.New(t).Context()
			for n, least := range map[int]int{1500: 3, 4000: 1} {
				got, parts := map[string]process.Tensor{}, 0
				p := part{File: want.File, Keys: slices.Collect(maps.Keys(want.Arrays)), N: n}
				for more := true; more; parts++ {
					a, err := f.rows.Call(ctx, f.kind.Get(want.File), p).Get(ctx)
					if err != nil {
						t.Fatal(err)
					}
					p.At, more = a.Next, a.Next != nil
					for k, v := range map[string]process.Tensor{"float32": a.F, "float64": a.D, "int32": a.I, "int64": a.L, "uint8": a.U, "bool": a.B} {
						if !v.IsZero() {
							got[k] = process.Tensor{DType: v.DType, Shape: v.Shape[1:], Data: append(got[k].Data, v.Data...)}
						}
					}
				}
				for k := range want.Arrays {
					w := want.tensor(k)
					w.Shape = w.Shape[1:]
					if !reflect.DeepEqual(got[k], w) {
						t.Errorf("%s in %d parts: %v of %d bytes, want %v of %d", k, parts, got[k], len(got[k].Data), w, len(w.Data))
					}
				}
				if parts < least || parts > least+1 || len(want.Arrays) < 3 {
					t.Error(parts, len(want.Arrays))
				}
			}
		})
	}
}

// TestDataRefused: an array of what a Tensor has not is an error that names it and its type, and the child lives on.
func TestDataRefused(t *testing.T) {
	needs(t, "numpy")
	ctx := testkit.New(t).Context()
	for _, form := range []string{"npz", "memmap"} {
		made := makes(t, form, "refused")
		for key, a := range made.Arrays {
			_, err := ofArrays.rows.Call(ctx, ofArrays.kind.Get("a"), part{File: made.File, Keys: []string{key}, N: 2}).Get(ctx)
			what := fmt.Sprintf("TypeError: '%s' in the result of rows is an array of %s: elements are of float32, float64, ", key, a.DType)
			if e, ok := errors.AsType[*process.Error](err); !ok || !strings.Contains(err.Error(), what) || e.Method != "rows" {
				t.Errorf("%v, want %s", err, what)
			}
		}
		if len(made.Arrays) < 14 {
			t.Error(len(made.Arrays))
		}
	}
}

// TestDataNone: a data set without a step, such as a part of many files, has its end at once.
func TestDataNone(t *testing.T) {
	for _, form := range forms[:3] {
		t.Run(form.name, func(t *testing.T) {
			needs(t, form.needs)
			none, ctx, n := makes(t, form.name, "none"), testkit.New(t).Context(), 0
			at, err := read(ctx, form.reads, part{File: none.File, Keys: keys, N: 7}, func(items []rl.Trajectory) error {
				n += len(items)
				return nil
			})
			if err != nil || n != 0 || at != nil {
				t.Error(n, at, err)
			}
		})
	}
}

// TestDataSmallFrames: where an answer is beyond MaxFrame less is asked for, down to one row.
func TestDataSmallFrames(t *testing.T) {
	needs(t, "numpy")
	want, ctx := makes(t, "npz", "steps"), testkit.New(t).Context()
	for f, fits := range map[format[steps]]bool{smallFrames: true, tinyFrames: false} {
		n, p := 0, part{File: want.File, Keys: keys, N: 100}
		at, err := read(ctx, f, p, func(items []rl.Trajectory) error {
			n += len(items)
			return nil
		})
		if fits != (n == 100 && err == nil) || fits == errors.Is(err, raysys.ErrTooLarge) {
			t.Error(n, at, err)
		}
	}
}

var (
	smallFrames = reads[steps]("guide.frames.small", "arrays.py", 2000)
	tinyFrames  = reads[steps]("guide.frames.tiny", "arrays.py", 100)
)

// TestDataLearns: an agent of package rl learns from what was read.
func TestDataLearns(t *testing.T) {
	needs(t, "numpy")
	want, ctx := makes(t, "npz", "steps"), testkit.New(t).Context()
	learner, err := dqn.New(dqn.Config{}).Learner(ctx, rl.Spec{Name: "steps", Obs: []int{4}, Actions: 2, MaxSteps: 100}, 1)
	if err != nil {
		t.Fatal(err)
	}
	before, made := learner.Weights(), 0
	_, err = read(ctx, ofArrays, part{File: want.File, Keys: keys, N: 16}, func(items []rl.Trajectory) error {
		b := rl.Batch{Steps: items, Keys: make([]uint64, len(items)), Probabilities: make([]float64, len(items)), Size: 100}
		for i := range b.Keys {
			b.Keys[i], b.Probabilities[i] = uint64(i), 0.01
		}
		l, err := learner.Learn(ctx, b)
		made += l.Steps
		return err
	})
	if made != 7 || err != nil || slices.Equal(before, learner.Weights()) {
		t.Error(made, err)
	}
}

// TestDataPage: each piece of Python in the page stands in a script.
func TestDataPage(t *testing.T) {
	page, err := os.ReadFile("data.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	files, err := scripts.ReadDir("data")
	for _, f := range files {
		text, bad := scripts.ReadFile("data/" + f.Name())
		all, err = append(all, text...), errors.Join(err, bad)
		if !strings.Contains(string(page), "(data/"+f.Name()+")") {
			t.Errorf("the page does not name %s", f.Name())
		}
	}
	pieces := strings.Split(string(page), "```python\n")[1:]
	for _, piece := range pieces {
		if code, _, _ := strings.Cut(piece, "```"); !strings.Contains(string(all), code) {
			t.Errorf("no script has\n%s", code)
		}
	}
	if err != nil || len(pieces) < 2 {
		t.Error(len(pieces), err)
	}
}
