package gputest

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
	"github.com/raysys/raysys/testkit"
)

// TestTorch: examples/torch learns on the device.
func TestTorch(t *testing.T) {
	d := gpu(t)
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.CommandContext(limit(t), python, "-c", "import numpy, torch; assert torch.cuda.is_available()").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		t.Skipf("%s has no numpy, or no torch that sees the GPU: RAYSYS_PYTHON names a Python that has both (%v %s)", python, err, lines[len(lines)-1])
	}
	cmd := exec.CommandContext(limit(t), program(t, "torch"), "-steps", "900")
	cmd.Env = append(os.Environ(), append(on(d), "RAYSYS_CONSUL=")...)
	b, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := strings.Fields(lines[len(lines)-1])
	if err != nil || len(last) < 5 || last[0] != "900" || last[4] == "CPU" {
		t.Fatalf("it says %q: %v", b, err)
	}
	row("`examples/torch`", "%s ms a step, accuracy %s, on %s", last[3], last[2], strings.Join(last[4:], " "))
}

// TestHetero: examples/hetero has its rollouts on the node without a GPU, and its learner on the node that holds the device.
func TestHetero(t *testing.T) {
	d := gpu(t)
	hetero, server := program(t, "hetero"), testkit.Consul(t)
	env := append(os.Environ(), "RAYSYS_CONSUL="+server.Address(), "RAYSYS_CLUSTER=hetero")
	for kind, gpus := range map[string][]string{"cpu": {"RAYSYS_GPUS=none"}, "gpu": on(d)} {
		cmd := exec.Command(hetero)
		cmd.Env = append(append(env, "RAYSYS_ROLE=worker", "RAYSYS_NAME="+kind, "RAYSYS_LABELS=kind="+kind, "RAYSYS_CPU=1"), gpus...)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		ended, err := subprocess.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // one that has ended is reported by the driver
			<-ended
		})
	}
	var said string
	testkit.Eventually(t, time.Minute, "both nodes have joined", func() bool {
		cmd := exec.CommandContext(limit(t), hetero, "-placement", "split", "-iterations", "3", "-steps", "100")
		cmd.Env = append(env, "RAYSYS_GPUS=none")
		b, err := cmd.CombinedOutput()
		said = string(b)
		if err != nil && !strings.Contains(said, "needs nodes with") {
			t.Fatalf("%v: %s", err, said)
		}
		return err == nil
	})
	i := strings.Index(said, "split: ")
	if i < 0 {
		t.Fatalf("it says %q", said)
	}
	line, _, _ := strings.Cut(said[i:], "\n")
	row("`examples/hetero`, the learner holds the device", "%s", line)
}
