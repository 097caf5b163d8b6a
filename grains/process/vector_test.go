package process_test

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

//go:embed testdata/envs.py
var envsPy string

var (
	walks   = process.DefineVector("walk", process.Config{Script: envsPy, New: "Walk", Envs: 3})
	npWalks = process.DefineVector("walk.numpy", process.Config{Script: "import numpy\n" + envsPy, New: "Walk", Envs: 3})
	grows   = process.DefineVector("grows", process.Config{Script: "import numpy\n" + envsPy, New: "Grows", Envs: 2})
	arms    = process.DefineVector("arm", process.Config{Script: envsPy, New: "Arm", Envs: 2})
	carts   = process.DefineVector("cart", process.Config{Gym: "CartPole-v1", Envs: 4})
	sync    = process.DefineVector("cart.sync", process.Config{Gym: "CartPole-v1", Envs: 4, Args: map[string]any{"vectorization_mode": "sync"}})
	native  = process.DefineVector("cart.own", process.Config{Gym: "CartPole-v1", Envs: 4, Own: true})
)

// walk makes steps with alternate actions, and returns all that it sees.
func walk(t *testing.T, k *testkit.Kit, v process.Vectors, seed int64, steps int) (seen []string) {
	t.Helper()
	ctx := k.Context()
	g := v.Get("a")
	o, err := v.Reset.Call(ctx, g, seed).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n := o.Shape[0]
	see := func(o process.Tensor, rest ...any) {
		f, err := process.Values[float32](o)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprint(o.Shape, f, rest))
	}
	see(o)
	for i := range steps {
		actions := make([]int64, n)
		for j := range actions {
			actions[j] = int64(i/2+j) & 1
		}
		s, err := v.Step.Call(ctx, g, process.Of(actions)).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		see(s.Observations, s.Rewards, s.Terminated, s.Truncated)
	}
	return seen
}

// TestVector: the same seed gives the same steps, in another child, too.
func TestVector(t *testing.T) {
	needs(t)
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	first := walk(t, k, walks, 1, 20)
	if !strings.HasPrefix(first[0], "[3 2] [") || !slices.ContainsFunc(first, func(s string) bool { return strings.Contains(s, "[0 1 1]") || strings.Contains(s, "[1 0 1]") }) {
		t.Errorf("no episode has ended: %s", strings.Join(first, "\n"))
	}
	if again := walk(t, k, walks, 1, 20); !slices.Equal(first, again) {
		t.Errorf("%v\n%v", first, again)
	}
	if other := walk(t, k, walks, 2, 20); slices.Equal(first, other) {
		t.Error("another seed gives the same")
	}
	_, err := walks.Step.Call(ctx, walks.Get("a"), process.Of([]int64{0, 6, 0})).Get(ctx)
	if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Status != "exit status 7" {
		t.Fatal(err)
	}
	if _, err := walks.Step.Call(ctx, walks.Get("a"), process.Of([]int64{0, 0, 0})).Get(ctx); !errors.Is(err, process.ErrReset) {
		t.Error(err)
	}
	if again := walk(t, k, walks, 1, 20); !slices.Equal(first, again) {
		t.Errorf("%v\n%v", first, again)
	}
}

// TestVectorFaults: an environment that fails is named, with its seed and the step.
func TestVectorFaults(t *testing.T) {
	t.Run("standard library", func(t *testing.T) { needs(t); vectorFaults(t, walks) })
	t.Run("numpy", func(t *testing.T) { needs(t, "numpy"); vectorFaults(t, npWalks) })
}

func vectorFaults(t *testing.T, v process.Vectors) {
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	g := v.Get("a")
	if _, err := v.Step.Call(ctx, g, process.Of([]int64{0, 0, 0})).Get(ctx); !errors.Is(err, process.ErrReset) {
		t.Error(err)
	}
	for action, want := range map[int64]string{
		2: "environment 1 (seed 41) in step 3: element 0 of the observation: not a number",
		3: "environment 1 (seed 41) in step 3: the reward: not a number",
		4: "environment 1 (seed 41) in step 3: wrong shape: an observation of shape (3,), and the first had (2,)",
		5: "step: RuntimeError: the walk is over",
		7: "step: ValueError: not enough values to unpack",
		8: "step: KeyboardInterrupt",
	} {
		if _, err := v.Reset.Call(ctx, g, 40).Get(ctx); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := v.Step.Call(ctx, g, process.Of([]int64{0, 1, 0})).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, unfit := range []process.Tensor{process.Of([]int64{0, 1}), {}, {DType: process.Int64, Shape: []int{3}}} {
			if _, err := v.Step.Call(ctx, g, unfit).Get(ctx); !errors.Is(err, process.ErrTensor) {
				t.Error(unfit, "for three environments:", err)
			}
		}
		_, err := v.Step.Call(ctx, g, process.Of([]int64{0, action, 0})).Get(ctx)
		e, ok := errors.AsType[*process.EnvError](err)
		if !ok || e.Env != 1 || e.Seed != 41 || e.Step != 3 || !strings.HasPrefix(e.Process, v.Name()+"/a") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		raised, ok := errors.AsType[*process.Error](err)
		if errors.Is(err, process.ErrNaN) != (action < 4) || errors.Is(err, process.ErrShape) != (action == 4) || ok != (action > 4) || ok && !strings.Contains(raised.Traceback, "Traceback") {
			t.Errorf("%d: %v", action, err)
		}
		if _, err := v.Step.Call(ctx, g, process.Of([]int64{0, 0, 0})).Get(ctx); !errors.Is(err, process.ErrReset) {
			t.Error(err)
		}
	}
}

// TestVectorGrows: a vector whose observations change is known as a whole.
func TestVectorGrows(t *testing.T) {
	needs(t, "numpy")
	k := testkit.New(t)
	ctx := k.Context()
	g := grows.Get("a")
	if o, err := grows.Reset.Call(ctx, g, 5).Get(ctx); o.String() != "uint8[2 3]" || err != nil {
		t.Error(o, err)
	}
	if s, err := grows.Step.Call(ctx, g, process.Of([]int64{0, 0})).Get(ctx); s.Observations.String() != "uint8[2 3]" || fmt.Sprint(s.Rewards) != "[1 2]" || err != nil {
		t.Error(s, err)
	}
	_, err := grows.Step.Call(ctx, g, process.Of([]int64{0, 0})).Get(ctx)
	if e, ok := errors.AsType[*process.EnvError](err); !ok || e.Env != -1 || !errors.Is(err, process.ErrShape) ||
		!strings.Contains(err.Error(), "the environments (seed 5) in step 2: wrong shape: observations uint8[2 4], want uint8[2 3]") {
		t.Error(err)
	}
}

// TestVectorOfNumbers: actions may be rows, and observations numbers.
func TestVectorOfNumbers(t *testing.T) {
	needs(t)
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := arms.Reset.Call(ctx, arms.Get("a"), 0).Get(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := arms.Step.Call(ctx, arms.Get("a"), process.Of([]float32{1, 2, 3, 4}, 2, 2)).Get(ctx)
	if f, bad := process.Values[float32](s.Observations); fmt.Sprint(s.Observations.Shape, f) != "[2] [3 7]" || err != nil || bad != nil {
		t.Error(s, err)
	}
}

// alone takes the steps of walk in Python, without raysys.
const alone = `
import sys, gymnasium, numpy
v = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode=sys.argv[1])
o, _ = v.reset(seed=1)
ended = 0
for i in range(60):
    o, r, te, tr, _ = v.step(numpy.array([(i // 2 + j) & 1 for j in range(4)]))
    ended += te.sum()
assert ended > 2
print(o.astype("<f4").tobytes().hex(), r.astype("<f4").tobytes().hex())
`

// TestGymnasium: a vector of gymnasium takes the same steps as in Python alone.
func TestGymnasium(t *testing.T) {
	python := needs(t, "gymnasium", "numpy")
	k := testkit.New(t)
	ctx := k.Context()
	for mode, list := range map[string][]process.Vectors{"sync": {carts, sync}, "vector_entry_point": {native}} {
		v := list[0]
		if first, all := walk(t, k, v, 1, 59), list; len(all) > 1 && !slices.Equal(first, walk(t, k, all[1], 1, 59)) {
			t.Errorf("mode %q is not what Gym is alone", mode)
		}
		s, err := v.Step.Call(ctx, v.Get("a"), process.Of([]int64{1, 0, 1, 0})).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want, err := exec.Command(python, "-c", alone, mode).CombinedOutput()
		if got := fmt.Sprintf("%x %x\n", s.Observations.Data, process.Of(s.Rewards).Data); got != string(want) || err != nil {
			t.Errorf("mode %q: %s, want %s %v", mode, got, want, err)
		}
	}
	// 3 is no action of CartPole
	for _, v := range []*process.Vectors{&carts, &native} {
		_, err := v.Step.Call(ctx, v.Get("a"), process.Of([]int64{0, 1, 3, 0})).Get(ctx)
		raised, ok := errors.AsType[*process.Error](err)
		e, named := errors.AsType[*process.EnvError](err)
		if !ok || raised.Type != "ValueError" || errors.Is(err, raysys.ErrPanic) || !named || e.Env != 2 || e.Seed != 3 {
			t.Error(err)
		}
	}
}
