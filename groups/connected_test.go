package groups_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestBestConnected: the bundles of a group on one node get the devices with the most links among them all, and work that asks for
// several devices of its bundle those with the most among them.
func TestBestConnected(t *testing.T) {
	w, err := devices.Open("fake:dgx1", devices.Config{Host: "h", Every: time.Millisecond, LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	all := w.Inventory()
	links := func(uuids []string) (n int) {
		at := func(uuid string) int {
			return slices.IndexFunc(all.Devices, func(d devices.Device) bool { return d.UUID == uuid })
		}
		for i := range uuids {
			for j := range i {
				n += all.Links[at(uuids[i])][at(uuids[j])]
			}
		}
		return n
	}
	tb := raysys.NewTable()
	running, stop := make(chan struct{}, 1), make(chan struct{})
	holds := tasks.DefineIn(tb, "holds", func(ctx context.Context, _ int) (string, error) {
		running <- struct{}{}
		<-stop
		return raysys.Devices(ctx)[0], nil
	})
	has := tasks.DefineIn(tb, "has", func(ctx context.Context, _ int) ([]string, error) { return raysys.Devices(ctx), nil })
	_, ctx := start(t, tb, func(cfg *system.Config) { cfg.Resources.GPU, cfg.DeviceSource = 0, w })
	made := func(bundles ...raysys.Resources) groups.Group {
		t.Helper()
		g, err := groups.Create(ctx, placement.StrictPack, bundles)
		if err == nil {
			err = g.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	get := func(g groups.Group, bundle int, gpus float64) []string {
		t.Helper()
		list, err := has.With(raysys.GPU(gpus), g.Bundle(bundle), raysys.CPU(0)).Go(ctx, 0).Get(ctx)
		if err != nil || len(list) != int(gpus) {
			t.Fatalf("a task for %g devices of bundle %d has %q, %v", gpus, bundle, list, err)
		}
		return list
	}

	g := made(raysys.Resources{GPU: 4})
	if pair := get(g, 0, 2); links(pair) != 2 {
		t.Errorf("two of a bundle's four devices have %d links: %q", links(pair), pair)
	}
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}

	first := holds.With(raysys.GPU(1), raysys.CPU(0)).Go(ctx, 0)
	<-running
	g = made(raysys.Resources{GPU: 1}, raysys.Resources{GPU: 1}, raysys.Resources{GPU: 2})
	var four []string
	for i, gpus := range []float64{1, 1, 2} {
		list := get(g, i, gpus)
		if four = append(four, list...); gpus == 2 && links(list) != 2 {
			t.Errorf("the bundle of two devices has %d links: %q", links(list), list)
		}
	}
	if links(four) != 9 {
		t.Errorf("beside one that is held a group has four devices with %d links, and four others have 9: %q", links(four), four)
	}
	close(stop)
	if uuid, err := first.Get(ctx); err != nil || uuid != all.Devices[0].UUID {
		t.Errorf("the task held %q, %v", uuid, err)
	}
}
