package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needsTorch skips a test where there is no PyTorch.
func needsTorch(t *testing.T) {
	t.Helper()
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import torch, numpy").CombinedOutput(); err != nil {
		t.Skipf("%s has no torch and numpy: RAYSYS_PYTHON names a Python that has them (%v %.200s)", python, err, b)
	}
}

// dies is a turn that ends the learner.
var dies = grains.Action0(onCPU, "die", func(t *trainer, _ context.Context) error {
	p, err := os.FindProcess(t.PID())
	if err != nil {
		return err
	}
	return p.Kill()
})

// TestLearns: and a trainer whose process was killed goes on as one that was not.
func TestLearns(t *testing.T) {
	needsTorch(t)
	var got []Progress
	for _, killed := range []bool{false, true} {
		k := testkit.New(t, testkit.Nodes(1))
		ctx := k.Context()
		g := onCPU.Get("a")
		if _, err := cpuFit.Call(ctx, g, 400).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if killed {
			if _, err := dies.Call(ctx, g).Get(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := cpuFit.Call(ctx, g, 400).Get(ctx); !errors.Is(err, process.ErrExited) {
				t.Fatal("the call that met the end of its learner:", err)
			}
		}
		p, err := cpuFit.Call(ctx, g, 400).Get(ctx)
		if err != nil || p.Step != 800 || p.Accuracy < 0.9 || p.Device != "CPU" {
			t.Error(p, err)
		}
		got = append(got, p)
	}
	if d := math.Abs(got[0].Loss - got[1].Loss); d > 1e-3*got[0].Loss || got[0].Accuracy != got[1].Accuracy {
		t.Error(got)
	}
}

func TestRun(t *testing.T) {
	needsTorch(t)
	k := testkit.New(t)
	var out bytes.Buffer
	if err := run(k.Context(), "a", 30, 20, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], "    20 ") || !strings.HasPrefix(lines[2], "    30 ") {
		t.Error(out.String())
	}
}

func TestSpirals(t *testing.T) {
	a, b := spirals(3), spirals(3)
	if !bytes.Equal(a.X.Data, b.X.Data) || bytes.Equal(a.X.Data, spirals(4).X.Data) || a.X.String() != "float32[256 2]" {
		t.Error(a.X, b.X)
	}
	if s, err := same(a.Y, process.Of(make([]int64, batch))); s != 0.5 || err != nil {
		t.Error(s, err)
	}
	if _, err := same(a.Y, a.X); err == nil {
		t.Error("classes and points were compared")
	}
}
