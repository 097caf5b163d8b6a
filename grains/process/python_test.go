package process_test

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

//go:embed testdata/child.py
var childPy string

// needs returns the Python that has those modules, and skips a test where there is none.
func needs(t testing.TB, modules ...string) string {
	t.Helper()
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	for _, m := range append([]string{"json"}, modules...) {
		if b, err := exec.Command(python, "-c", "import "+m).CombinedOutput(); err != nil {
			t.Skipf("%s has no %s: RAYSYS_PYTHON names a Python that has it (%v %.200s)", python, m, err, b)
		}
	}
	return python
}

type (
	scaling struct {
		X  process.Tensor `json:"x"`
		By float64        `json:"by,omitempty"`
		// Note is None where it is zero.
		Note process.Tensor `json:"note"`
	}
	scaled struct {
		Y   process.Tensor `json:"y"`
		Sum float64        `json:"sum"`
	}
	kinds struct {
		F process.Tensor `json:"f"`
		D process.Tensor `json:"d"`
		I process.Tensor `json:"i"`
		L process.Tensor `json:"l"`
		U process.Tensor `json:"u"`
		B process.Tensor `json:"b"`
		E process.Tensor `json:"e"`
	}
	counted struct {
		N int `json:"n"`
	}
	drawn struct {
		Seed   uint32  `json:"seed"`
		Random float64 `json:"random"`
		Hash   int64   `json:"hash"`
	}
	depth struct {
		Depth int `json:"depth"`
	}
	list struct {
		To []int `json:"to"`
	}
	word struct {
		Word string `json:"word"`
	}
	around struct {
		Devices string `json:"devices"`
		Mine    string `json:"mine"`
		Dir     string `json:"dir"`
		Beside  string `json:"beside"`
		Secrets string `json:"secrets"`
	}
	misplaced struct {
		In struct{ X process.Tensor }
	}
)

var (
	boxes    = process.Define("box", boxed(0))
	count    = process.Method[none, counted](boxes, "count")
	draw     = process.Method[none, drawn](boxes, "draw")
	scale    = process.Method[scaling, scaled](boxes, "scaled")
	typed    = process.Method[kinds, kinds](boxes, "kinds")
	broken   = process.Method[depth, none](boxes, "broken")
	value    = process.Method[none, none](boxes, "value")
	listed   = process.Method[none, scaled](boxes, "listed")
	odd      = process.Method[none, scaled](boxes, "strange")
	nan      = process.Method[none, counted](boxes, "nan")
	absent   = process.Method[none, none](boxes, "absent")
	untold   = process.Method[scaling, none](boxes, "untold")
	prints   = process.Method[none, none](boxes, "prints")
	hangs    = process.Method[none, none](boxes, "hangs")
	leaves   = process.Method[none, none](boxes, "leaves")
	forks    = process.Method[none, none](boxes, "forks")
	appended = process.Method[list, counted](boxes, "appended")
	environ  = process.Method[none, around](boxes, "environ")
	wrong    = process.Method[misplaced, none](boxes, "misplaced")
	raises   = process.Method[word, none](boxes, "raises")
	text     = process.Method[word, word](boxes, "text")
	multi    = process.Method[word, counted](boxes, "multi").With(raysys.Deadline(busy))

	smalls = process.Define("box.small", process.Config{Script: childPy, New: "Box", Args: map[string]any{"scale": 1}, MaxFrame: 64 << 10})
	large  = process.Method[counted, scaled](smalls, "large")
	longer = process.Method[word, none](smalls, "raises")
	counts = process.Method[none, counted](smalls, "count")

	stopped = process.Define("box.stopped", boxed(3*time.Second))
	stops   = process.Method[none, none](stopped, "stops")
	works   = process.Method[none, none](stopped, "works")

	functions = process.Define("box.functions", process.Config{Script: childPy})
	function  = process.Method[word, word](functions, "function")

	unmade  = process.Define("box.unmade", process.Config{Script: "import nothing_of_that_name", New: "Box"})
	unmadeF = process.Method[none, none](unmade, "f")
)

func boxed(beat time.Duration) process.Config {
	return process.Config{
		Script: childPy, New: "Box", Args: map[string]any{"scale": 2}, Seed: 5, Env: []string{"MINE=a", "CUDA_VISIBLE_DEVICES=7", "RAYSYS_MINE=b"}, Dir: "testdata", Heartbeat: beat,
	}
}

func TestPython(t *testing.T) {
	needs(t)
	t.Setenv("CONSUL_HTTP_TOKEN", "secret")
	t.Setenv("RAYSYS_NATS", "nats://user:secret@127.0.0.1:1")
	k := testkit.New(t)
	ctx := k.Context()
	a := boxes.Get("a")
	x := process.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	got, err := scale.Call(ctx, a, scaling{X: x, By: 0.5}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := process.Values[float32](got.Y); fmt.Sprint(y) != "[1 2 3 4 5 6]" || got.Sum != 21 || err != nil {
		t.Error(got, y, err)
	}
	all := kinds{
		process.Of([]float32{1, -1}), process.Of([]float64{2.5}, 1, 1), process.Of([]int32{-3, 3}), process.Of([]int64{1 << 40}), process.Of([]uint8{1, 2, 255}),
		process.Of([]bool{true, false}), process.Of([]float32{}),
	}
	if back, err := typed.Call(ctx, a, all).Get(ctx); fmt.Sprint(back) != fmt.Sprint(all) || err != nil {
		t.Error(back, err)
	}
	if got, err := function.Call(ctx, functions.Get("a"), word{"ab"}).Get(ctx); got.Word != "abab" || err != nil {
		t.Error(got, err)
	}
	for range 2 { // what a method does to its argument is gone
		if got, err := appended.Call(ctx, a, list{[]int{1, 2}}).Get(ctx); got.N != 3 || err != nil {
			t.Error(got, err)
		}
	}
	if _, err := forks.Call(ctx, a, none{}).Get(ctx); err != nil {
		t.Error(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := environ.Call(ctx, a, none{}).Get(ctx); got != (around{Mine: "a", Dir: dir + "/testdata", Beside: "beside", Secrets: "RAYSYS_MINE"}) || err != nil {
		t.Error("a child without devices and secrets, whose own modules are its own:", got, err)
	}
}

// TestPythonRaises: exceptions and results that do not fit are errors, and the child lives on.
func TestPythonRaises(t *testing.T) {
	needs(t)
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	a := boxes.Get("a")
	if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != 1 || err != nil {
		t.Fatal(got, err)
	}
	_, err := broken.Call(ctx, a, depth{2}).Get(ctx)
	e, ok := errors.AsType[*process.Error](err)
	if !ok || e.Process != "box/a" || e.Method != "broken" || e.Type != "ValueError" || e.Message != "the box is empty: é" {
		t.Fatalf("%#v", err)
	}
	if strings.Count(e.Traceback, `File "script.py"`) != 3 || !strings.Contains(e.Traceback, `raise ValueError("the box is empty: é")`) || strings.Contains(e.Traceback, "worker.py") {
		t.Error(e.Traceback)
	}
	for what, err := range map[string]error{
		"TypeError: value returned int: return a dict":                       second(value.Call(ctx, a, none{}).Get(ctx)),
		"TypeError: 'y' in the result of strange has elements of format 'h'": second(odd.Call(ctx, a, none{}).Get(ctx)),
		"ValueError: Out of range float values":                              second(nan.Call(ctx, a, none{}).Get(ctx)),
		"AttributeError: 'Box' object has no attribute":                      second(absent.Call(ctx, a, none{}).Get(ctx)),
		"the value does not fit: the tensor does not fit":                    second(listed.Call(ctx, a, none{}).Get(ctx)),
		"AttributeError: 'NoneType' object has no attribute":                 second(untold.Call(ctx, a, scaling{}).Get(ctx)),
		`"y" is an array, float32[6]`:                                        second(untold.Call(ctx, a, scaling{X: process.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)}).Get(ctx)),
		"float32[1] is inside a field":                                       second(wrong.Call(ctx, a, misplaced{struct{ X process.Tensor }{process.Of([]float32{1})}}).Get(ctx)),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
	if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != 2 || err != nil {
		t.Error("the child did not live on:", got, err)
	}
	_, err = unmadeF.Call(ctx, unmade.Get("a"), none{}).Get(ctx)
	if e, ok := errors.AsType[*process.Error](err); !ok || e.Method != "" || e.Type != "ModuleNotFoundError" {
		t.Error(err)
	}
}

// TestPythonRaisesAnything: exceptions that have no text, or are no Exception, do not end the child.
func TestPythonRaisesAnything(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	a := boxes.Get("a")
	for i, c := range []struct{ what, kind, message, trace string }{
		{"mute", "Mute", "<no text: KeyboardInterrupt>", "raise raising(word)"},
		{"half", "ValueError", `a \ud800 b`, `ValueError: a \ud800 b`},
		{"cancelled", "CancelledError", "stop", "CancelledError: stop"},
		{"interrupt", "KeyboardInterrupt", "by hand", "raise raising(word)"},
		{"generator", "GeneratorExit", "", "raise raising(word)"},
		{"group", "BaseExceptionGroup", "a group (1 sub-exception)", "raise raising(word)"},
		{"name", strings.Repeat("N", 200), "so", "raise raising(word)"},
	} {
		_, err := raises.Call(ctx, a, word{c.what}).Get(ctx)
		e, ok := errors.AsType[*process.Error](err)
		if !ok || e.Type != c.kind || e.Message != c.message || !strings.Contains(e.Traceback, c.trace) {
			t.Errorf("%s: %.1000s %+v", c.what, err, e)
		}
		if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != i+1 || err != nil {
			t.Errorf("%s: the child did not live on: %v %v", c.what, got, err)
		}
	}
}

// TestPythonText: text comes back as it was, or is refused.
func TestPythonText(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	a := boxes.Get("a")
	for _, s := range []string{"", "\x00\u2028é\U0001f600\ufffd", `\ufffd \ud800 "\\`} {
		if got, err := text.Call(ctx, a, word{s}).Get(ctx); got.Word != s || err != nil {
			t.Errorf("%q came back as %q, %v", s, got.Word, err)
		}
	}
	_, err := text.Call(ctx, a, word{"bytes: \xff\xfe"}).Get(ctx)
	if !errors.Is(err, process.ErrValue) || !strings.Contains(err.Error(), "box/a: text: the value does not fit: text that is no UTF-8, near") {
		t.Error(err)
	}
	_, err = text.Call(ctx, a, word{"half"}).Get(ctx)
	if e, ok := errors.AsType[*process.Error](err); !ok || !strings.Contains(e.Message, `text returned text that is no UTF-8, near '{"word": "a \ud800 b"}': return bytes`) {
		t.Error(err)
	}
	if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != 1 || err != nil {
		t.Error(got, err)
	}
}

// TestPythonMultiprocessing: functions of the script run in processes of multiprocessing, and in those that these start.
func TestPythonMultiprocessing(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	for _, how := range []string{"fork", "spawn", "forkserver"} {
		if got, err := multi.Call(ctx, boxes.Get("a"), word{how}).Get(ctx); got.N != 1014 || err != nil {
			t.Error(how, got, err)
		}
	}
}

const mappedPy = `
import os

import numpy


def text(word):
    a = numpy.memmap(word, "uint8", "w+", shape=1 << 20)
    os.truncate(word, 1 << 16)
    return {"y": a}
`

var (
	mapped  = process.Define("mapped", process.Config{Script: mappedPy, Heartbeat: 3 * time.Second})
	mappedF = process.Method[word, scaled](mapped, "text")
)

// TestPythonCutFrame: a child that can write no more than a part of a frame ends: what it said next would be taken for the rest.
func TestPythonCutFrame(t *testing.T) {
	needs(t, "numpy")
	ctx := testkit.New(t).Context()
	for range 2 {
		_, err := mappedF.Call(ctx, mapped.Get("a"), word{filepath.Join(t.TempDir(), "a")}).Get(ctx)
		if e, ok := errors.AsType[*process.ExitError](err); !ok || errors.Is(err, process.ErrSilent) {
			t.Error(e, err)
		}
	}
}

// TestPythonLarge: a result beyond the bound of frames is an error, as the text of an exception is not.
func TestPythonLarge(t *testing.T) {
	needs(t)
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	a := smalls.Get("a")
	const most = 64<<10 - 80 // for a header of 75 bytes and its length
	if got, err := large.Call(ctx, a, counted{most}).Get(ctx); len(got.Y.Data) != most || err != nil {
		t.Error(len(got.Y.Data), err)
	}
	for i, n := range []int{most + 8, 1 << 20} {
		_, err := large.Call(ctx, a, counted{n}).Get(ctx)
		if !errors.Is(err, raysys.ErrTooLarge) || errors.Is(err, process.ErrExited) || !strings.Contains(err.Error(), "box.small/a: the result of large: ") {
			t.Error(err)
		}
		_, err = longer.Call(ctx, a, word{"long"}).Get(ctx)
		e, ok := errors.AsType[*process.Error](err)
		if !ok || len(e.Message) < 16000 || len(e.Message) > 16<<10 || len(e.Traceback) > 16<<10 || !strings.HasPrefix(e.Message, "beginéé") ||
			!strings.HasSuffix(e.Message, "ééend") || !strings.Contains(e.Message, "\n... 6275180 bytes are left out ...\n") {
			t.Errorf("%.200s %+v", err, ok)
		}
		if got, err := counts.Call(ctx, a, none{}).Get(ctx); got.N != i+1 || err != nil {
			t.Error("the child did not live on:", got, err)
		}
	}
}

// TestPythonShared: results that lie in shared memory, which grows with them, are what was sent.
func TestPythonShared(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	for _, n := range []int{70 << 10, 3 << 20, 100 << 10, 0, 5 << 20} {
		data := make([]uint8, n)
		for i := range data {
			data[i] = uint8(i * 7 / 5)
		}
		sent := kinds{U: process.Of(data), D: process.Of([]float64{1, 2}), B: process.Of([]bool{true})}
		got, err := typed.Call(ctx, boxes.Get("a"), sent).Get(ctx)
		if !bytes.Equal(got.U.Data, data) || fmt.Sprint(got.U, got.D, got.D.Data, got.B.Data) != fmt.Sprint(sent.U, sent.D, sent.D.Data, sent.B.Data) || err != nil {
			t.Error(n, got.U, got.D, got.B, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestPythonStartsAnew: with its seed and without its state, which another grain has of its own.
func TestPythonStartsAnew(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	a, b := boxes.Get("a"), boxes.Get("b")
	first, err := draw.Call(ctx, a, none{}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := draw.Call(ctx, b, none{}).Get(ctx); other.Seed == first.Seed || other.Random == first.Random || err != nil {
		t.Error(first, other, err)
	}
	if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != 1 || err != nil {
		t.Error(got, err)
	}
	_, err = leaves.Call(ctx, a, none{}).Get(ctx)
	if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Status != "exit status 9" || e.Stderr != "leaving" {
		t.Fatal(err)
	}
	if again, err := draw.Call(ctx, a, none{}).Get(ctx); again != first || err != nil {
		t.Error(first, again, err)
	}
	if got, err := count.Call(ctx, a, none{}).Get(ctx); got.N != 1 || err != nil {
		t.Error("it has the state of the child that is no more:", got, err)
	}
}

// TestPythonSilent: one that is stopped is found by its heartbeat, and one that works for longer lives.
func TestPythonSilent(t *testing.T) {
	t.Parallel()
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	long := works.Call(ctx, stopped.Get("b"), none{})
	if _, err := stops.With(raysys.Deadline(busy)).Call(ctx, stopped.Get("a"), none{}).Get(ctx); !errors.Is(err, process.ErrSilent) {
		t.Error(err)
	}
	if _, err := long.Get(ctx); err != nil {
		t.Error(err)
	}
}

// TestPythonHangs: the deadline ends a call that works for ever.
func TestPythonHangs(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := count.Call(ctx, boxes.Get("a"), none{}).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := hangs.With(raysys.Deadline(300*time.Millisecond)).Call(ctx, boxes.Get("a"), none{}).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
	if got, err := count.Call(ctx, boxes.Get("a"), none{}).Get(ctx); got.N != 1 || err != nil {
		t.Error(got, err)
	}
}

// TestPythonPrints: what a child prints is logged in lines, as of the call that it serves.
func TestPythonPrints(t *testing.T) {
	needs(t)
	core, logs := observer.New(zap.InfoLevel)
	t.Run("run", func(t *testing.T) {
		k := testkit.New(t, testkit.Config(system.Config{Logger: zap.New(core)}))
		if _, err := count.Call(k.Context(), boxes.Get("a"), none{}).Get(k.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := prints.Call(k.Context(), boxes.Get("a"), none{}).Get(k.Context()); err != nil {
			t.Fatal(err)
		}
	})
	lines, functions := map[string][]string{}, map[string]bool{}
	for _, e := range logs.All() {
		if output, ok := e.ContextMap()["output"].(string); ok {
			lines[output] = append(lines[output], e.Message)
			functions[fmt.Sprint(e.ContextMap()["function"])] = true
		}
	}
	if !functions["box/a.prints"] {
		t.Errorf("of the calls %v", functions)
	}
	want := []string{"made by ['-c']", "a library prints this", `"\x00\x01\xff binary"`, strings.Repeat("x", 4096), strings.Repeat("x", 904), "no end of line"}
	if got := lines["stdout"]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
	if got := lines["stderr"]; fmt.Sprint(got) != "[a warning]" {
		t.Errorf("%q", got)
	}
}

// mine is a grain with a struct of its own around a child.
type mine struct {
	process.Child
	calls int
}

func (m *mine) OnActivate(ctx context.Context) error { return m.Start(ctx, boxed(0)) }

var (
	mines = grains.Define[mine]("mine")
	twice = grains.Method0(mines, "twice", func(m *mine, ctx context.Context) (n int, err error) {
		for range 2 {
			m.calls++
			c, err := process.Call[none, counted](ctx, &m.Child, "count", none{})
			if err != nil {
				return 0, err
			}
			n = c.N
		}
		return n * m.calls, nil
	})
	unstarted = grains.Action0(mines, "unstarted", func(_ *mine, ctx context.Context) error {
		_, err := process.Call[none, none](ctx, &process.Child{}, "count", none{})
		return err
	})
)

func TestChildInAStruct(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	if n, err := twice.Call(ctx, mines.Get("a")).Get(ctx); n != 4 || err != nil {
		t.Error(n, err)
	}
	if _, err := unstarted.Call(ctx, mines.Get("a")).Get(ctx); !errors.Is(err, process.ErrExited) {
		t.Error(err)
	}
}

// TestExample runs what Example shows.
func TestExample(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	l := line{process.Of([]float64{1, 2, 3}), process.Of([]float64{2, 4, 6})}
	if s, err := fit.Call(k.Context(), fitters.Get("a"), l).Get(k.Context()); s.Slope != 2 || err != nil {
		t.Error(s, err)
	}
}
