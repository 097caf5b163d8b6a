package system_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func fakeSource(t *testing.T, name string) (*devices.Fake, *devices.Watcher) {
	t.Helper()
	f, err := devices.NewFake(name, "host")
	if err != nil {
		t.Fatal(err)
	}
	w, err := devices.NewWatcher(f, devices.Config{Every: time.Millisecond, LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return f, w
}

// TestDeviceSource: a node offers the devices of its source, a task holds one by its UUID, and a sick one gets no new work
// until it is well.
func TestDeviceSource(t *testing.T) {
	f, w := fakeSource(t, "h100x1")
	logs, seen := observer.New(zap.InfoLevel)
	healed := new(atomic.Bool)
	tb := raysys.NewTable()
	held := tasks.DefineIn(tb, "held", func(ctx context.Context, _ int) (string, error) {
		return strings.Join(raysys.Devices(ctx), ","), nil
	}).With(raysys.GPU(1), raysys.GPUModel("NVIDIA H100 80GB HBM3"))
	after := tasks.DefineIn(tb, "after", func(context.Context, int) (bool, error) { return healed.Load(), nil }).With(raysys.GPU(0.5))
	plain := tasks.DefineIn(tb, "plain", func(context.Context, int) (int, error) { return 1, nil })
	n, err := system.New(system.Config{Table: tb, DeviceSource: w, Logger: zap.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	if n.Resources().GPU != 1 {
		t.Errorf("a node with one device offers %v", n.Resources())
	}
	if got, err := held.Go(ctx, 0).Get(ctx); got != w.Inventory().Devices[0].UUID || err != nil {
		t.Errorf("the task holds %q, %v", got, err)
	}
	said := func(text string) {
		t.Helper()
		eventually(t, "the log says: "+text, func() bool { return seen.FilterMessage(text).Len() > 0 })
	}
	if err := f.Fault(0, "lost"); err != nil {
		t.Fatal(err)
	}
	said("device is sick and gets no new work")
	waits := after.Go(ctx, 0)
	if _, err := plain.Go(ctx, 0).Get(ctx); err != nil { // a task that asks for no device runs on
		t.Error(err)
	}
	healed.Store(true)
	if err := f.Fault(0, "well"); err != nil {
		t.Fatal(err)
	}
	if ok, err := waits.Get(ctx); !ok || err != nil {
		t.Errorf("a task began on a sick device: %v, %v", ok, err)
	}
	said("device is well again")
}

// TestBestConnected: work that asks for several devices gets those with the most links among them, not the first.
func TestBestConnected(t *testing.T) {
	_, w := fakeSource(t, "dgx1")
	inventory := w.Inventory()
	if inventory.Links[0][1] != 1 {
		t.Fatalf("the first two devices of a DGX-1 have %d links", inventory.Links[0][1])
	}
	tb := raysys.NewTable()
	held := tasks.DefineIn(tb, "held", func(ctx context.Context, _ int) ([]string, error) {
		return raysys.Devices(ctx), nil
	}).With(raysys.GPU(2))
	n, err := system.New(system.Config{Table: tb, DeviceSource: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	got, err := held.Go(ctx, 0).Get(ctx)
	if err != nil || len(got) != 2 {
		t.Fatalf("the task holds %q, %v", got, err)
	}
	at := func(uuid string) int {
		return slices.IndexFunc(inventory.Devices, func(d devices.Device) bool { return d.UUID == uuid })
	}
	if links := inventory.Links[at(got[0])][at(got[1])]; links != 2 {
		t.Errorf("two devices with %d links are held, where others have 2: %q", links, got)
	}
}

// TestGPUsVariable: a program on its own takes RAYSYS_GPUS; that it cannot be meant, or no library is linked in, is an error.
func TestGPUsVariable(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "none": "", "fake:t4x2": "", "all": `RAYSYS_GPUS="all": devices "all": give auto`, "auto": "no library for GPUs is linked in",
	} {
		t.Setenv("RAYSYS_GPUS", value)
		cfg, err := system.FromEnv()
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", value, err, want)
			}
		case err != nil || (cfg.DeviceSource != nil) != strings.HasPrefix(value, "fake:"):
			t.Errorf("%q: got %v and devices %v", value, err, cfg.DeviceSource)
		}
	}
}

// TestTwoLists: devices come from one place.
func TestTwoLists(t *testing.T) {
	_, w := fakeSource(t, "t4x1")
	_, err := system.New(system.Config{Table: raysys.NewTable(), DeviceSource: w, Devices: []raysys.Device{{UUID: "a"}}})
	if err == nil || !strings.Contains(err.Error(), "Config.Devices and Config.DeviceSource: give one of them") {
		t.Errorf("got %v", err)
	}
}
