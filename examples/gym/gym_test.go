package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needsGymnasium skips a test where there is none.
func needsGymnasium(t *testing.T) {
	t.Helper()
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import gymnasium").CombinedOutput(); err != nil {
		t.Skipf("%s has no gymnasium: RAYSYS_PYTHON names a Python that has it (%v %.200s)", python, err, b)
	}
}

// TestLearn: the policy is found, and the same one by each run of a seed.
func TestLearn(t *testing.T) {
	needsGymnasium(t)
	var out [2]bytes.Buffer
	for i := range out {
		k := testkit.New(t, testkit.Nodes(i)) // alone, and on a node of a cluster
		if err := learn(k.Context(), 1, &out[i]); err != nil {
			t.Fatalf("%v\n%s", err, &out[i])
		}
	}
	if a, b := out[0].String(), out[1].String(); a != b || !strings.Contains(a, "\nsolved: [") {
		t.Errorf("%s\n%s", a, b)
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
