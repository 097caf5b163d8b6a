//go:build linux

package gputest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/examples/gpu/cudatest"
	"github.com/raysys/raysys/internal/long"
)

// TestOnStandIn runs the other tests with libraries that stand in for the NVIDIA driver's, and a nvidia-smi that shows what they
// show: else nobody would know whether they run before they are on a machine with a GPU.
func TestOnStandIn(t *testing.T) {
	long.Only(t)
	if standIn {
		t.Skip("it is running")
	}
	folder := cudatest.Build(t)
	if folder == "" {
		t.Skip("there is no C compiler")
	}
	const uuid = "GPU-00000000-0000-0000-0000-000000000000"
	source := filepath.Join("..", "..", "..", "placement", "nvml", "testdata", "libnvidia-ml.c")
	if b, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", filepath.Join(folder, "libnvidia-ml.so.1"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	smi := "#!/bin/sh\necho '" + uuid + ", Test GPU, 40960, 0.0'\n"
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte(smi), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), standInVariable+"=1", "LD_LIBRARY_PATH="+folder, "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"),
		"NVML_FAKE_GPUS=1", "FAKE_CUDA_UUIDS="+uuid)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for _, name := range []string{"TestDevices", "TestTrains", "TestHalves", "TestHetero"} {
		if !strings.Contains(string(b), "--- PASS: "+name+" ") {
			t.Errorf("%s did not pass: %s", name, b)
		}
	}
	for _, figure := range []string{"| device | Test GPU, 40960 MiB, ", "its node is killed", "| half a device, ", "| `examples/hetero`, "} {
		if !strings.Contains(string(b), figure) {
			t.Errorf("the table has no %q: %s", figure, b)
		}
	}
	t.Logf("%s", b)
}
