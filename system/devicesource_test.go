package system_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
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
// until it is well: what waits for resources waits for that.
func TestDeviceSource(t *testing.T) {
	f, w := fakeSource(t, "h100x1")
	logs, seen := observer.New(zap.InfoLevel)
	healed := new(atomic.Bool)
	tb := raysys.NewTable()
	held := tasks.DefineIn(tb, "held", func(ctx context.Context, _ int) (string, error) {
		return strings.Join(raysys.Devices(ctx), ","), nil
	}).With(raysys.GPU(1), raysys.GPUModel("NVIDIA H100 80GB HBM3"))
	after := tasks.DefineIn(tb, "after", func(context.Context, int) (bool, error) { return healed.Load(), nil }).With(raysys.GPU(0.5), raysys.WaitForResources())
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

// TestGPUsVariable: a program that no `raysys node` started reads RAYSYS_GPUS. A value that means nothing is an error, and so is one that needs a library which is not linked in.
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

// sickSource is what TestHoldersAreTold and others need: a node with two devices, of which the test has one fail.
func sickSource(t *testing.T, tb *raysys.Table) (fail func(uuid, fault string), ctx context.Context) {
	t.Helper()
	f, w := fakeSource(t, "h100x2")
	n, err := system.New(system.Config{Table: tb, DeviceSource: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	return func(uuid, fault string) {
		t.Helper()
		for i, d := range w.Inventory().Devices {
			if d.UUID == uuid {
				if err := f.Fault(i, fault); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("no device %q", uuid)
	}, n.Context(t.Context())
}

// TestHoldersAreTold: work that holds a device which falls sick is told by its context, with which device and of what; work that
// holds another, or none, is not; and who asks later is told at once.
func TestHoldersAreTold(t *testing.T) {
	tb := raysys.NewTable()
	began := make(chan string, 2)
	again := make(chan error, 1)
	holds := tasks.DefineIn(tb, "holds", func(ctx context.Context, _ int) (string, error) {
		with, cancel := raysys.WithDevices(ctx)
		defer cancel()
		began <- raysys.Devices(ctx)[0]
		<-with.Done()
		later, stop := raysys.WithDevices(ctx)
		defer stop()
		if ctx.Err() == nil { // it was told, not cancelled
			again <- context.Cause(later)
		}
		return "", context.Cause(with)
	}).With(raysys.GPU(1))
	plain := tasks.DefineIn(tb, "plain", func(ctx context.Context, _ int) (int, error) {
		with, cancel := raysys.WithDevices(ctx)
		defer cancel()
		return 1, with.Err()
	})
	fail, ctx := sickSource(t, tb)
	one, other := holds.Go(ctx, 0), holds.Go(ctx, 0)
	first, second := <-began, <-began
	fail(first, "ecc")
	ready, rest, err := raysys.Wait(ctx, []raysys.Ref[string]{one, other}, 1)
	if err != nil || len(ready) != 1 {
		t.Fatal(ready, err)
	}
	_, err = ready[0].Get(ctx)
	if !errors.Is(err, raysys.ErrDeviceSick) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), "ECC") {
		t.Errorf("the work that holds %s, which is sick, ends with %v", first, err)
	}
	if err := <-again; !errors.Is(err, raysys.ErrDeviceSick) {
		t.Errorf("who asks after the device fell sick is told %v", err)
	}
	if p := raysys.PhaseOf(rest[0]); p != raysys.PhasePending {
		t.Errorf("work that holds %s, which is well, is %v", second, p)
	}
	rest[0].Cancel()
	if _, err := rest[0].Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("after its cancellation: %v", err)
	}
	if _, err := plain.Go(ctx, 0).Get(ctx); err != nil {
		t.Errorf("work that holds nothing is told %v", err)
	}
	if with, cancel := raysys.WithDevices(ctx); with.Err() != nil {
		t.Errorf("a driver is told %v", with.Err())
	} else {
		cancel()
	}
}

// trainer says when it ends.
type trainer struct{ device string }

var trainersEnd chan string // of the test that runs

func (g *trainer) OnActivate(ctx context.Context) error {
	g.device = raysys.Devices(ctx)[0]
	return nil
}

func (g *trainer) OnDeactivate(context.Context) error { trainersEnd <- g.device; return nil }

func (g *trainer) Where(context.Context) (string, error) { return g.device, nil }

// TestIdleHoldersGo: an idle activation that holds a sick device goes, and the next one has a device that is well; a kind
// with Keep stays.
func TestIdleHoldersGo(t *testing.T) {
	trainersEnd = make(chan string, 8)
	tb := raysys.NewTable()
	k := grains.DefineIn[trainer](tb, "trainer", grains.Holds(raysys.GPU(0.5)))
	where := grains.Method0(k, "where", (*trainer).Where)
	kept := grains.DefineIn[trainer](tb, "kept", grains.Holds(raysys.GPU(0.5)), grains.Keep())
	keptWhere := grains.Method0(kept, "where", (*trainer).Where)
	fail, ctx := sickSource(t, tb)
	get := func(r raysys.Ref[string]) string {
		t.Helper()
		v, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	device, same := get(where.Call(ctx, k.Get("a"))), get(keptWhere.Call(ctx, kept.Get("a")))
	if device != same {
		t.Fatalf("two halves are of %s and %s", device, same)
	}
	fail(device, "lost")
	if gone := <-trainersEnd; gone != device {
		t.Errorf("the activation that goes had %s, and %s is sick", gone, device)
	}
	if next := get(where.Call(ctx, k.Get("a"))); next == device {
		t.Errorf("the next activation has %s, which is sick", next)
	}
	if v := get(keptWhere.Call(ctx, kept.Get("a"))); v != same || len(trainersEnd) != 0 {
		t.Errorf("an activation of a kind with Keep is gone: its device is %s, and was %s", v, same)
	}
}
