//go:build cgo && linux

package nvml

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/placement/devices"
)

// build makes testdata/libnvidia-ml.c the driver's library in a folder of its own, in one of its forms: "", OLD or EMPTY. It
// returns "" where there is no C compiler.
func build(t *testing.T, form string) (folder string) {
	t.Helper()
	cc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	if err != nil {
		t.Logf("what the NVIDIA driver says is not tested: there is no C compiler to build a library for tests: %v", err)
		return ""
	}
	folder = t.TempDir()
	args := []string{"-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", filepath.Join(folder, libraryName), "testdata/libnvidia-ml.c"}
	if form != "" {
		args = append(args, "-D"+form)
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("build a library for tests: %v\n%s", err, out)
	}
	return folder
}

// patience bounds the calls of a child, on a machine that has other things to do; soon does where a call hangs.
const (
	patience = time.Minute
	soon     = 3 * time.Second
)

// see runs a child with that library until it has seen some inventories, and returns its lines. A child that crashes is a
// failure, since a node would.
func see(t *testing.T, folder string, inventories int, limit time.Duration, env []string) (lines []seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %v", childVariable, inventories, limit), "LD_LIBRARY_PATH="+folder, "GORACE=atexit_sleep_ms=0") // else a program with the race detector waits a second before it exits
	for _, e := range env {
		if !strings.HasPrefix(e, devices.VisibleVariable) {
			e = "NVML_FAKE_" + e
		}
		cmd.Env = append(cmd.Env, e)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the process that loads the library: %v\n%s%s", err, out, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s seen
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		lines = append(lines, s)
	}
	return lines
}

// last is the last inventory of a child, with what it said.
func last(lines []seen) (i devices.Inventory, said string) {
	for _, s := range lines {
		if s.Devices != nil {
			i = s.Inventory
		}
		said += s.Said
	}
	return i, said
}

func gpuDevice(i int) devices.Device {
	return devices.Device{
		UUID: fmt.Sprintf("GPU-%08x-0000-0000-0000-000000000000", i), Model: "Test GPU", Memory: 40 << 30, Index: i,
		PCI: fmt.Sprintf("0000:%02x:00.0", 6+i), Used: 1 << 30, Busy: 70,
	}
}

// TestDriver runs this package over a library in C, in a process of its own, so that a crash is seen as such.
func TestDriver(t *testing.T) {
	full := build(t, "")
	if full == "" {
		return
	}
	old, empty := build(t, "OLD"), build(t, "EMPTY")
	run := func(name, folder string, inventories int, env string, check func(t *testing.T, lines []seen)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := patience
			if strings.Contains(env, "HANG") || strings.Contains(env, "INIT=-1") {
				limit = soon
			}
			check(t, see(t, folder, inventories, limit, strings.Fields(env)))
		})
	}
	inventory := func(want devices.Inventory) func(*testing.T, []seen) {
		return func(t *testing.T, lines []seen) {
			got, _ := last(lines)
			for i := range got.Devices {
				got.Devices[i].NUMA = 0 // this host may have a device at the address
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("the inventory (-want +got):\n%s", diff)
			}
		}
	}
	sick := func(want ...string) func(*testing.T, []seen) {
		return func(t *testing.T, lines []seen) {
			got, said := last(lines)
			if len(got.Devices) != len(want) {
				t.Fatalf("got %+v, and it says %q", lines, said)
			}
			for i, d := range got.Devices {
				if !strings.Contains(d.Sick, want[i]) || want[i] == "" && d.Sick != "" || want[i] != "" && !strings.Contains(said, d.UUID) {
					t.Errorf("device %d is sick of %q, want %q; it says %q", i, d.Sick, want[i], said)
				}
			}
		}
	}
	none := func(want string) func(*testing.T, []seen) {
		return func(t *testing.T, lines []seen) {
			if len(lines) != 1 || !strings.Contains(lines[0].Err, want) || !strings.HasPrefix(lines[0].Err, devices.ErrNoLibrary.Error()) {
				t.Errorf("got %+v, want the error %q", lines, want)
			}
		}
	}

	run("inventory", full, 1, "GPUS=3", inventory(devices.Inventory{
		Devices: []devices.Device{gpuDevice(0), gpuDevice(1), gpuDevice(2)},
		Links:   [][]int{{0, 2, 1}, {1, 0, 2}, {2, 1, 0}},
	}))
	run("switches", full, 1, "GPUS=2 SWITCH=1", inventory(devices.Inventory{
		Devices: []devices.Device{gpuDevice(0), gpuDevice(1)}, Links: [][]int{{0, 3}, {3, 0}},
	}))
	run("visible", full, 1, "GPUS=3 CUDA_VISIBLE_DEVICES=2,0", inventory(devices.Inventory{
		Devices: []devices.Device{gpuDevice(2), gpuDevice(0)}, Links: [][]int{{0, 2}, {1, 0}},
	}))
	instance := func(n int) devices.Device {
		d := gpuDevice(1)
		d.GPU, d.UUID = d.UUID, fmt.Sprintf("MIG-%08x-0000-0000-0000-00000000000%d", 1, n)
		d.Model, d.Memory, d.Busy = "Test GPU MIG 1g.5gb", 5<<30, devices.Unknown
		return d
	}
	run("MIG", full, 1, "MIG=1", inventory(devices.Inventory{
		Devices: []devices.Device{gpuDevice(0), instance(1), instance(2)}, Links: [][]int{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
	}))
	oldest := gpuDevice(0)
	oldest.Busy = devices.Unknown
	run("a driver that lacks symbols", old, 1, "GPUS=1", inventory(devices.Inventory{Devices: []devices.Device{oldest}, Links: [][]int{{0}}}))

	run("ECC errors", full, 1, "ECC=1", sick("", "2 uncorrectable ECC errors"))
	run("lost", full, 1, "LOST=0", sick("the GPU is lost", ""))
	run("hangs", full, 1, "HANG=1", sick("", devices.ErrSilent.Error()))
	run("hangs from the start", full, 1, "GPUS=3 HANG_ALL=1", func(t *testing.T, lines []seen) {
		if got, said := last(lines); len(got.Devices) != 2 || got.Devices[1].Index != 2 || !strings.Contains(said, "GPU 1 is left out: does not answer") {
			t.Errorf("got %+v", lines)
		}
	})
	run("waiting for Xids hangs", full, 2, "HANG_WAIT=1 ECC_LATER=1", sick("", "2 uncorrectable ECC errors"))
	run("Xid of the hardware", full, 2, "XID=1:79", sick("", "Xid 79: GPU has fallen off the bus"))
	run("Xid on an instance's GPU", full, 2, "MIG=1 XID=1:95", sick("", "Xid 95", "Xid 95"))

	run("no symbols", empty, 1, "", none("has no nvmlInit_v2"))
	run("driver not loaded", full, 1, "INIT=9", none("the NVIDIA driver is not loaded"))
	run("other driver loaded", full, 1, "INIT=18", none("of different versions"))
	run("start fails", full, 1, "INIT=77", none("result 77 of the driver"))
	run("start hangs", full, 1, "INIT=-1", none("does not answer within "+soon.String()))
	run("no GPUs", full, 1, "GPUS=0", func(t *testing.T, lines []seen) {
		if len(lines) != 1 || lines[0].Err != "" || len(lines[0].Devices) != 0 {
			t.Errorf("got %+v", lines)
		}
	})
}

// TestResults: each result is a sentence of its own, and a lost GPU is one in the words of devices.
func TestResults(t *testing.T) {
	for r, text := range texts {
		if err := failure("do", r); err == nil || err.Error() != "do: "+text {
			t.Errorf("result %d: got %v", int(r), err)
		}
	}
	if err := failure("do", 15); !errors.Is(err, devices.ErrLost) {
		t.Errorf("the result of a lost GPU: %v", err)
	}
	if err := failure("do", 0); err != nil {
		t.Errorf("success: %v", err)
	}
}
