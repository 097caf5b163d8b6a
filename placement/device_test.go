package placement_test

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

func deviceNode(id raysys.NodeID, devices ...placement.Device) placement.Node {
	n := placement.Node{ID: id, Incarnation: 1, Worker: true, Total: raysys.Resources{CPU: 8, GPU: float64(len(devices))}, Devices: devices}
	n.Free = n.Total
	return n
}

func aDevice(model string, share float64, memory int64) placement.Device {
	return placement.Device{Device: raysys.Device{UUID: model, Model: model, Memory: 80}, FreeShare: share, FreeMemory: memory}
}

// TestDevices: a share needs one device with that much free, whole devices need free ones, and each has the model and the
// memory that are asked for. A node that lists no devices is known by their number alone.
func TestDevices(t *testing.T) {
	sick := aDevice("A100", 1, 80)
	sick.Sick = true
	unlisted := placement.Node{ID: "unlisted", Incarnation: 1, Worker: true, Total: raysys.Resources{CPU: 8, GPU: 2}}
	unlisted.Free = unlisted.Total
	nodes := []placement.Node{
		deviceNode("halves", aDevice("H100", 0.5, 40), aDevice("H100", 0.5, 40)),
		deviceNode("whole", aDevice("H100", 1, 80), aDevice("H100", 0, 0)),
		deviceNode("sick", sick), unlisted,
	}
	for _, c := range []struct {
		name  string
		needs raysys.Resources
		want  map[raysys.NodeID]bool // of a grain, which needs room now
		never bool
	}{
		{"a share", raysys.Resources{GPU: 0.5}, map[raysys.NodeID]bool{"halves": true, "whole": true, "unlisted": true}, false},
		{"more than a half", raysys.Resources{GPU: 0.6}, map[raysys.NodeID]bool{"whole": true, "unlisted": true}, false},
		{"a whole one", raysys.Resources{GPU: 1, GPUModel: "H100"}, map[raysys.NodeID]bool{"whole": true}, false},
		{"two", raysys.Resources{GPU: 2}, map[raysys.NodeID]bool{"unlisted": true}, false},
		{"memory", raysys.Resources{GPU: 0.1, GPUMemory: 41}, map[raysys.NodeID]bool{"whole": true}, false},
		{"a sick one", raysys.Resources{GPU: 1, GPUModel: "A100"}, nil, true},
		{"a model nobody has", raysys.Resources{GPU: 1, GPUModel: "B200"}, nil, true},
		{"memory nobody has", raysys.Resources{GPU: 1, GPUMemory: 81}, nil, true},
		{"more than any has", raysys.Resources{GPU: 3}, nil, true},
	} {
		v := placement.NewView("", nodes)
		got := map[raysys.NodeID]bool{}
		var err error
		for seed := range uint64(200) {
			var d placement.Decision
			if d, err = placement.Place(v, placement.Request{Kind: placement.Grain, Needs: c.needs, Seed: seed}); err == nil {
				got[d.Node] = true
			}
		}
		if len(c.want) == 0 && !errors.Is(err, map[bool]error{true: raysys.ErrNoCapacity, false: placement.ErrNoNode}[c.never]) {
			t.Errorf("%s: %v", c.name, err)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: placed on %v, want %v", c.name, got, c.want)
		}
		for id := range c.want {
			if !got[id] {
				t.Errorf("%s: never placed on %s", c.name, id)
			}
		}
	}
}

// TestPlacedDevices: what a decision places is taken of the devices, and given back when it is gone.
func TestPlacedDevices(t *testing.T) {
	v := placement.NewView("", []placement.Node{deviceNode("n", aDevice("H100", 1, 80), aDevice("H100", 1, 80))})
	half := placement.Request{Kind: placement.Grain, Needs: raysys.Resources{GPU: 0.5, GPUMemory: 30}}
	place := func(r placement.Request) error {
		d, err := placement.Place(v, r)
		if err == nil {
			v.Placed(r, d)
		}
		return err
	}
	for range 2 {
		if err := place(half); err != nil {
			t.Fatal(err)
		}
	}
	whole := placement.Request{Kind: placement.Grain, Needs: raysys.Resources{GPU: 1}}
	if err := place(whole); err != nil {
		t.Fatalf("two halves do not share one device: %v", err)
	}
	if err := place(half); err == nil {
		t.Fatal("a share was placed where no device has one")
	}
	v.Gone("n", whole.Needs)
	if err := place(whole); err != nil {
		t.Fatalf("what is gone was not given back: %v", err)
	}
}

// TestPlacedShares: a share that is given back goes to a device that had it, where devices differ in what the node has of them.
func TestPlacedShares(t *testing.T) {
	half := aDevice("H100", 0.5, 80)
	half.Share = 0.5
	v := placement.NewView("", []placement.Node{deviceNode("n", half, aDevice("H100", 1, 80))})
	place := func(gpu float64) {
		t.Helper()
		r := placement.Request{Kind: placement.Grain, Needs: raysys.Resources{GPU: gpu}}
		d, err := placement.Place(v, r)
		if err != nil {
			t.Fatalf("a share of %g: %v", gpu, err)
		}
		v.Placed(r, d)
	}
	place(0.25) // of the half
	place(0.5)  // of the other
	v.Gone("n", raysys.Resources{GPU: 0.5})
	place(1)
}
