package gputest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/placement/devices"
	_ "github.com/raysys/raysys/placement/nvml" // finds the GPUs
	"github.com/raysys/raysys/testkit"
)

const (
	// programsVariable names the folder that has the programs.
	programsVariable = "RAYSYS_TEST_GPU_PROGRAMS"
	// standInVariable says that libraries of the tests stand in for the driver's.
	standInVariable = "RAYSYS_TEST_GPU_STAND_IN"
)

// standIn says that what computes is an interpreter on the CPU: work is small then, and times say nothing.
var standIn = os.Getenv(standInVariable) != ""

// rows are the figures.
var rows struct {
	sync.Mutex
	list []string
}

func row(what, format string, args ...any) {
	rows.Lock()
	defer rows.Unlock()
	rows.list = append(rows.list, fmt.Sprintf("| %s | %s |", what, fmt.Sprintf(format, args...)))
}

func TestMain(m *testing.M) {
	testkit.Child()
	if _, err := find(); err != nil && os.Getenv(programsVariable) != "" {
		fmt.Printf("test-gpu: skipped: there is no GPU here: %v\n", err)
		return
	}
	code := m.Run()
	if len(rows.list) > 0 {
		fmt.Printf("\n| what | figure |\n|---|---|\n%s\n\n", strings.Join(rows.list, "\n"))
	}
	os.Exit(code)
}

// find finds the GPUs of this host.
var find = sync.OnceValues(func() ([]devices.Device, error) {
	w, err := devices.Open("auto", devices.Config{})
	if err != nil {
		return nil, err
	}
	list := w.Inventory().Devices
	if len(list) == 0 {
		return nil, errors.New("the driver shows none")
	}
	return list, nil
})

// gpu is the first GPU, which the test runs on.
func gpu(t *testing.T) devices.Device {
	t.Helper()
	list, err := find()
	if err != nil {
		t.Skipf("there is no GPU here: %v", err)
	}
	return list[0]
}

// on is the environment of a process that shall have that GPU and no other.
func on(d devices.Device) []string {
	return []string{"RAYSYS_GPUS=auto", devices.VisibleVariable + "=" + d.UUID}
}

// program is the path of an example's program.
func program(t *testing.T, name string) string {
	t.Helper()
	if folder := os.Getenv(programsVariable); folder != "" {
		return filepath.Join(folder, name)
	}
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", path, "./examples/"+name)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build examples/%s: %v\n%s", name, err, b)
	}
	return path
}

// small is a model that the CPU trains in moments, too.
func small() mlp.Spec {
	if standIn {
		return mlp.Spec{Sizes: []int{6, 9, 3}, Batch: 12, Batches: 3, Rate: 0.01, Seed: 1}
	}
	return mlp.Spec{Sizes: []int{64, 256, 128, 10}, Batch: 128, Batches: 16, Rate: 0.001, Seed: 1}
}

// large is a model that has something to do for a GPU.
func large() mlp.Spec {
	if standIn {
		return small()
	}
	return mlp.Spec{Sizes: []int{784, 2048, 2048, 10}, Batch: 1024, Batches: 4, Rate: 0.001, Seed: 1}
}

// sameLoss fails the test unless a loss is that of the CPU before the last of so many steps, but for the rounding of single floats that
// are added in another order.
func sameLoss(t *testing.T, s mlp.Spec, steps int, got float64) {
	t.Helper()
	m, err := mlp.OnCPU(s, s.Start())
	var want float64
	for i := 0; i < steps && err == nil; i++ {
		want, err = m.Step()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got < want*0.98-1e-3 || got > want*1.02+1e-3 {
		t.Errorf("the loss of step %d is %g, and on the CPU %g", steps, got, want)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond)) }

// limit bounds a program that a test runs.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
