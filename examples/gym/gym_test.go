package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needsGymnasium skips a test where there is none.
func needsGymnasium(t *testing.T) { needs(t, "gymnasium") }

// needs skips a test where Python has not these modules.
func needs(t *testing.T, modules string) {
	t.Helper()
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("%s has no %s: RAYSYS_PYTHON names a Python that has them (%v %.200s)", python, modules, err, b)
	}
}

// TestLearn: the policy is found, and the same one by each run of a seed. The short form ends with one that balances the pole for 300 steps.
func TestLearn(t *testing.T) {
	needsGymnasium(t)
	var out [2]bytes.Buffer
	for i := range out {
		k := testkit.New(t, testkit.Nodes(i)) // alone, and on a node of a cluster
		if err := learn(k.Context(), 1, long.Form(300., solved), &out[i]); err != nil {
			t.Fatalf("%v\n%s", err, &out[i])
		}
	}
	if a, b := out[0].String(), out[1].String(); a != b || !strings.Contains(a, "\nsolved: [") {
		t.Errorf("%s\n%s", a, b)
	}
}

// minariToMake is what minari[hdf5,create] needs to make a set.
const minariToMake = "minari, h5py, PIL, jax"

// TestClone: a clone of an expert plays much better than random actions, and the same way by each run of a seed, of a set that is made and of
// one that there is.
func TestClone(t *testing.T) {
	needs(t, minariToMake)
	var out [2]string
	for i := range out {
		ctx, b, id := testkit.New(t, testkit.Nodes(i)).Context(), bytes.Buffer{}, ""
		if i == 1 {
			from := Set{t.TempDir(), "cartpole/linear-v0"}
			t.Setenv("MINARI_DATASETS_PATH", from.Folder)
			if _, err := makeSet.Call(ctx, sets.Get("made"), expert{from, "CartPole-v1", linear, 10, 3}).Get(ctx); err != nil {
				t.Fatal(err)
			}
			id = from.ID
		}
		if err := clone(ctx, id, 10, 3, &b); err != nil {
			t.Fatalf("%v\n%s", err, &b)
		}
		out[i] = b.String()
	}
	t.Log(out[0])
	var random, taught, cloned float64
	lines := strings.Split(strings.TrimSpace(out[0]), "\n")
	last := "mean return: %f by random actions, %f of the expert in the set, %f of its clone"
	_, err := fmt.Sscanf(lines[len(lines)-1], last, &random, &taught, &cloned)
	if err != nil || random > 40 || taught < 400 || cloned < 200 || out[0] != out[1] {
		t.Errorf("%v\n%s\n%s", err, out[0], out[1])
	}
}

const badPy = `
import os

import gymnasium
import minari
import numpy
from minari.data_collector import EpisodeBuffer


def make(folder, id, env, actions):
    os.environ["MINARI_DATASETS_PATH"] = folder
    action, space = numpy.zeros(1, "float32"), gymnasium.spaces.Box(-2, 2, (1,))
    if actions:
        action, space = numpy.int64(0), gymnasium.spaces.Discrete(actions)
    e = EpisodeBuffer(id=0, observations=[numpy.zeros(3, "float32")] * 3, actions=[action] * 2, rewards=[0.0] * 2,
                      terminations=[False] * 2, truncations=[False, True])
    minari.create_dataset_from_buffers(id, [e], env=env or None, observation_space=gymnasium.spaces.Box(-9, 9, (3,)), action_space=space)
`

// bad is a set that cannot be cloned.
type bad struct {
	Set
	Env     string `json:"env"`
	Actions int    `json:"actions"` // 0: they have no numbers
}

var (
	bads    = process.Define("gym.bad", process.Config{Script: badPy})
	makeBad = process.Method[bad, struct{}](bads, "make").With(slow)
)

// TestCloneRefuses: a set whose actions have no numbers, that does not say its environment or has other observations than it, and one that is not there, are
// named.
func TestCloneRefuses(t *testing.T) {
	needs(t, minariToMake)
	ctx, folder := testkit.New(t).Context(), t.TempDir()
	t.Setenv("MINARI_DATASETS_PATH", folder)
	for _, c := range []struct {
		bad
		want string
	}{
		{bad{Set{folder, "pendulum/still-v0"}, "Pendulum-v1", 0}, "TypeError: pendulum/still-v0 has observations Box("},
		{bad{Set{folder, "nowhere/still-v0"}, "", 2}, "ValueError: nowhere/still-v0 does not say of which environment it is"},
		{bad{Set{folder, "cartpole/short-v0"}, "CartPole-v1", 2}, "CartPole-v1 has observations float32[64 4], and the set has 3 numbers in each"},
	} {
		if _, err := makeBad.Call(ctx, bads.Get("a"), c.bad).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := clone(ctx, c.ID, 0, 1, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := aboutSet.Call(ctx, sets.Get("a"), Set{folder, "no/such-v0"}).Get(ctx); err == nil || !strings.Contains(err.Error(), "no/such-v0") {
		t.Error(err)
	}
	if err := clone(ctx, "cartpole/short", 0, 1, io.Discard); err == nil || !strings.Contains(err.Error(), "ValueError: cartpole/short is no id of a set") {
		t.Error(err)
	}
}

// TestPlay: a policy that does nothing of use falls soon.
func TestPlay(t *testing.T) {
	needsGymnasium(t)
	k := testkit.New(t)
	if r, err := play.Call(k.Context(), players.Get("players"), game{Seed: 1}).Get(k.Context()); r < 8 || r > 12 || err != nil {
		t.Error(r, err)
	}
}

func TestRates(t *testing.T) {
	needsGymnasium(t)
	k := testkit.New(t)
	var out bytes.Buffer
	if err := rates(k.Context(), 4, 1, 0.05, &out); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(out.String(), "\n")[1:5] {
		if mode := []string{"sync", "sync", "vector_entry_point", "images"}[i]; !strings.HasPrefix(line, mode+" ") {
			t.Errorf("%s, want %s", line, mode)
		}
	}
	if text := out.String(); strings.Contains(text, "\nenvpool ") == strings.Contains(text, "\nleft out, since this Python has no module of that name: envpool") {
		t.Error(text)
	}
}
