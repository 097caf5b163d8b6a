package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

var (
	column  = gyms("column", process.Config{New: "Column"})
	indices = gyms("indices", process.Config{New: "indices"})
	tall    = gyms("tall", process.Config{New: "Columns"})
	endless = gyms("endless", process.Config{New: "Endless"})
	fails   = gyms("fails", process.Config{New: "fails"})
	remade  = gyms("remade", process.Config{New: "Remade"})
	sames   = gyms("sames", process.Config{New: "same"})
	poles   = process.DefineVector("gyms.poles", process.Config{Gym: "CartPole-v1", Envs: 2})
	owned   = process.DefineVector("gyms.owned", process.Config{Gym: "CartPole-v1", Envs: 2, Own: true})
)

// TestActions: an action that an environment with numbered ones has not is refused, and says of which environment, where the environment itself takes -1 for the last
// one. That of an episode that has ended is ignored, whatever it is.
func TestActions(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	nan := float32(math.NaN())
	for _, v := range []process.Vectors{column, indices} {
		g := v.Get("a")
		begin := func() {
			t.Helper()
			if _, err := v.Reset.Call(ctx, g, 1).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, bad := range []process.Tensor{
			process.Of([]int64{0, -1}), process.Of([]int64{0, 3}), process.Of([]int64{0, math.MaxInt64}), process.Of([]int64{0, math.MinInt64}), process.Of([]uint8{0, 255}),
		} {
			begin()
			_, err := v.Step.Call(ctx, g, bad).Get(ctx)
			if e, ok := errors.AsType[*process.EnvError](err); !ok || e.Env != 1 || e.Seed != 2 || e.Step != 1 || !strings.Contains(err.Error(), "ValueError: there is no action") ||
				!strings.Contains(err.Error(), "give a whole number from 0 to 2") {
				t.Errorf("%s %v: %v", v.Name(), bad, err)
			}
		}
		for _, bad := range []process.Tensor{process.Of([]float32{0, 1}), process.Of([]float64{0, 1.5}), process.Of([]int64{0, 1}, 2, 1)} {
			begin()
			if _, err := v.Step.Call(ctx, g, bad).Get(ctx); err == nil || !strings.Contains(err.Error(), "there is no action") {
				t.Errorf("%s %v: %v", v.Name(), bad, err)
			}
		}
		begin()
		for _, bad := range []process.Tensor{process.Of([]float32{0, nan}), process.Of([]float64{0, math.NaN()}), process.Of([]float32{0, 0, 0, nan}, 2, 2)} {
			if _, err := v.Step.Call(ctx, g, bad).Get(ctx); !errors.Is(err, process.ErrTensor) || !errors.Is(err, process.ErrNaN) || !strings.Contains(err.Error(), "environment 1") {
				t.Errorf("%s %v: %v", v.Name(), bad, err)
			}
		}
		for i, good := range []process.Tensor{process.Of([]bool{false, true}), process.Of([]uint8{0, 1}), process.Of([]int32{0, 1})} {
			s, err := v.Step.Call(ctx, g, good).Get(ctx)
			if err != nil || fmt.Sprint(s.Rewards) != "[5 6]" || s.Terminated[0] != (i == 2) {
				t.Errorf("%s %v: %+v %v", v.Name(), good, s, err)
			}
		}
		if s, err := v.Step.Call(ctx, g, process.Of([]int64{-1, 99})).Get(ctx); err != nil || fmt.Sprint(s.Rewards) != "[0 0]" {
			t.Errorf("%s: the actions of episodes that have ended: %+v %v", v.Name(), s, err)
		}
	}
	if _, err := tall.Reset.Call(ctx, tall.Get("a"), 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := tall.Step.Call(ctx, tall.Get("a"), process.Of([]int64{0, 0})).Get(ctx); err != nil || fmt.Sprint(s.Rewards) != "[5 6]" {
		t.Errorf("rewards in a column: %+v %v", s, err)
	}
}

// TestEndlessActions: a space without bounds takes each number.
func TestEndlessActions(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	g := endless.Get("a")
	if _, err := endless.Reset.Call(ctx, g, 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	inf := float32(math.Inf(-1))
	s, err := endless.Step.Call(ctx, g, process.Of([]float32{1e30, 0, inf, 5}, 2, 2)).Get(ctx)
	if err != nil || s.Rewards[0] != 1e30 || s.Rewards[1] != inf {
		t.Errorf("%+v %v", s, err)
	}
}

// seeded prints the first observation of a seed, in Python alone.
const seeded = `import sys, gymnasium; print(gymnasium.make("CartPole-v1").reset(seed=int(sys.argv[1]))[0].astype("<f4").tobytes().hex())`

// TestSeeds: a seed beyond 32 bits is that of gymnasium alone, and a negative one is refused.
func TestSeeds(t *testing.T) {
	python := needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	for _, seed := range []int64{0, 1<<32 + 5, math.MaxInt64} {
		o, err := poles.Reset.Call(ctx, poles.Get("a"), seed).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want, err := exec.Command(python, "-c", seeded, fmt.Sprint(seed)).CombinedOutput()
		if got := fmt.Sprintf("%x\n", o.Data[:16]); err != nil || got != string(want) {
			t.Errorf("seed %d: %s, want %s %v", seed, got, want, err)
		}
	}
	for _, seed := range []int64{-1, math.MinInt64} {
		for v, want := range map[*process.Vectors]string{&poles: "Error: Seed must be", &owned: "ValueError: the seed is "} {
			if _, err := v.Reset.Call(ctx, v.Get("a"), seed).Get(ctx); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprint(seed)) {
				t.Errorf("seed %d: %v, want %s", seed, err, want)
			}
		}
	}
}

// TestVectorLosesAProcess: of an AsyncVectorEnv whose process has ended the error says which, and how. An exception of such a process is what it was, also with a
// percent sign. The next Reset makes the vector anew.
func TestVectorLosesAProcess(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	g := fails.Get("a")
	for _, c := range []struct {
		action int64
		env    int
		want   string
	}{{1, 1, "ChildProcessError: its process has ended: exit code -9"}, {2, -1, "ValueError: at 50 %"}, {0, 0, ""}} {
		if _, err := fails.Reset.Call(ctx, g, 5).Get(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := fails.Step.Call(ctx, g, process.Of([]int64{0, c.action})).Get(ctx)
		e, ok := errors.AsType[*process.EnvError](err)
		if ok != (c.want != "") || ok && (e.Env != c.env || !strings.Contains(err.Error(), c.want)) || !ok && err != nil {
			t.Errorf("action %d: %v, want %s", c.action, err, c.want)
		}
	}
}

// TestVectorIsMadeAnew: where a vector cannot be made anew, or the new one does not reset, the error is that of the environments, as elsewhere, and the next
// Reset tries again.
func TestVectorIsMadeAnew(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	g := remade.Get("a")
	step := process.Of([]int64{0, 0})
	if _, err := remade.Reset.Call(ctx, g, 5).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := remade.Step.Call(ctx, g, step).Get(ctx); err == nil || !strings.Contains(err.Error(), "it does not go on") {
		t.Fatal(err)
	}
	for _, want := range []string{"OSError: no room for another", "RuntimeError: it does not begin"} {
		_, err := remade.Reset.Call(ctx, g, 5).Get(ctx)
		if e, ok := errors.AsType[*process.EnvError](err); !ok || e.Env != -1 || e.Seed != 5 || e.Step != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := remade.Reset.Call(ctx, g, 5).Get(ctx); err != nil {
		t.Error(err)
	}
	if s, err := remade.Step.Call(ctx, g, step).Get(ctx); err != nil || s.Rewards[1] != 1 {
		t.Error(s, err)
	}
}

// TestNoEnvironments: a Vector without environments says so.
func TestNoEnvironments(t *testing.T) {
	for _, n := range []int{0, -1} {
		var v process.Vector
		if err := v.Start(t.Context(), process.Config{Script: gymsPy, New: "Count", Envs: n}); err == nil || !strings.Contains(err.Error(), "a Vector needs Envs of 1 or more") {
			t.Error(n, err)
		}
	}
}

// TestSameEnvironment: a function that makes no environment of its own for each is refused. Their steps would be those of one.
func TestSameEnvironment(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	ctx := testkit.New(t, testkit.Nodes(1)).Context()
	if _, err := sames.Reset.Call(ctx, sames.Get("a"), 1).Get(ctx); err == nil || !strings.Contains(err.Error(), "ValueError: same returned an environment a second time: each of the 2") {
		t.Error(err)
	}
}

const arraysPy = `
import os

import numpy


def text(n):
    return {"text": "x" * n}


def matrix(n):
    return {"x": numpy.matrix([[1, 2]] * (n // 2), "u1"), "memory": os.fstat(5).st_size}
`

type (
	lengths struct {
		N int `json:"n"`
	}
	array struct {
		Text   string         `json:"text"`
		X      process.Tensor `json:"x"`
		Memory int            `json:"memory"` // bytes that are shared
	}
)

var (
	arrays = process.Define("arrays", process.Config{Script: arraysPy})
	prose  = process.Method[lengths, array](arrays, "text")
	matrix = process.Method[lengths, array](arrays, "matrix")
)

// TestLargeText: a large result without tensors needs no shared memory, and leaves it to those that have some.
func TestLargeText(t *testing.T) {
	needs(t, "numpy")
	ctx := testkit.New(t, testkit.Nodes(1)).Context()
	for range 2 {
		if got, err := prose.Call(ctx, arrays.Get("a"), lengths{100_000}).Get(ctx); len(got.Text) != 100_000 || err != nil {
			t.Error(len(got.Text), err)
		}
		if _, err := matrix.Call(ctx, arrays.Get("a"), lengths{100_000}).Get(ctx); err != nil {
			t.Error(err)
		}
	}
	if got, err := matrix.Call(ctx, arrays.Get("a"), lengths{10}).Get(ctx); err != nil || runtime.GOOS == "linux" && got.Memory != 1<<20 {
		t.Error(got.Memory, err)
	}
}

// TestMatrix: an array of a class of its own, whose rows no reshape puts into one, is taken as an array whatever its size is.
func TestMatrix(t *testing.T) {
	needs(t, "numpy")
	ctx := testkit.New(t, testkit.Nodes(1)).Context()
	for _, n := range []int{10, 20_000, 100_000} {
		got, err := matrix.Call(ctx, arrays.Get("b"), lengths{n}).Get(ctx)
		if want := fmt.Sprintf("uint8[%d 2]", n/2); err != nil || got.X.String() != want || !bytes.Equal(got.X.Data, bytes.Repeat([]byte{1, 2}, n/2)) {
			t.Error(got.X, want, err)
		}
	}
}
