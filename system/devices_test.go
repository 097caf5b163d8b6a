package system_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestDevicesOfANode: devices are listed, or made of their number; what cannot be meant is said with its place.
func TestDevicesOfANode(t *testing.T) {
	two := []raysys.Device{{UUID: "a"}, {UUID: "b", Share: 0.5}}
	for _, c := range []struct {
		resources raysys.Resources
		devices   []raysys.Device
		gpu       float64
		says, not string
	}{
		{gpu: 0},
		{resources: raysys.Resources{GPU: 2.5, GPUModel: "H100", GPUMemory: 80 << 30}, gpu: 2.5},
		{devices: two, gpu: 1.5},
		{resources: raysys.Resources{GPU: 1.5}, devices: two, gpu: 1.5},
		{resources: raysys.Resources{GPU: 2}, devices: two, says: "Config.Resources.GPU is 2, and Config.Devices has 1.5"},
		{resources: raysys.Resources{GPUModel: "H100"}, says: `has GPUModel "H100", and no GPU: say how many`},
		{resources: raysys.Resources{GPU: -1}, says: "GPU is -1", not: "give 0 to"},
		{resources: raysys.Resources{Memory: math.MaxInt64}, says: "Memory is 8192 PiB: no node has more than 8 PiB", not: "GPU"},
		{resources: raysys.Resources{Custom: map[string]float64{"x": 1e300}}, says: "x is 1e+300", not: "GPU"},
		{resources: raysys.Resources{Custom: map[string]float64{"x": 1e-5}}, says: "x is 1e-05: the smallest share is 0.001", not: "give 0"},
		{resources: raysys.Resources{Custom: map[string]float64{"gpu": 2}}, says: `"gpu" is no custom resource: give raysys.GPU, or system.Config.Resources.GPU, or --gpu`},
		{resources: raysys.Resources{GPU: 1e6}, says: "Config.Resources.GPU is 1e+06: give 0 to 256"},
		{devices: []raysys.Device{{UUID: "a"}, {UUID: "a"}}, says: `Config.Devices[1] has UUID "a"`},
		{devices: []raysys.Device{{}}, says: `Config.Devices[0] has UUID ""`},
		{devices: []raysys.Device{{UUID: "a", Memory: -1}}, says: "-1 bytes"},
		{devices: []raysys.Device{{UUID: "a", Share: 2}}, says: "a share of 2"},
	} {
		c.resources.CPU = 1
		n, err := system.New(system.Config{Table: raysys.NewTable(), Resources: c.resources, Devices: c.devices})
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) || c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v and %v: %v; want %q", c.resources, c.devices, err, c.says)
			}
		case err != nil:
			t.Errorf("%v and %v: %v", c.resources, c.devices, err)
		case n.Resources().GPU != c.gpu:
			t.Errorf("%v and %v: the node offers %v", c.resources, c.devices, n.Resources())
		case n.Resources().Memory <= 0:
			t.Errorf("the node offers %d bytes of memory", n.Resources().Memory)
		}
	}
}

// TestMemoryOffered: a node offers what its container may have, less what its object store may take.
func TestMemoryOffered(t *testing.T) {
	for _, store := range []int64{1 << 20, 1 << 30} {
		n, err := system.New(system.Config{Table: raysys.NewTable(), Objects: system.ObjectConfig{Memory: store}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := n.Resources().Memory, max(objectstore.AvailableMemory()-store, 0); got != want {
			t.Errorf("with %d bytes for objects the node offers %d bytes, want %d", store, got, want)
		}
	}
}

// TestNamesOfANumber: devices of which an operator gives no more than the number are those that CUDA_VISIBLE_DEVICES names.
func TestNamesOfANumber(t *testing.T) {
	for _, c := range []struct{ gpu, visible, want, says string }{
		{gpu: "2", visible: "", want: "0,1"},
		{gpu: "2", visible: "2,3", want: "2,3"},
		{gpu: "2", visible: "3,GPU-a", says: `Config.Resources.GPU is 2, and CUDA_VISIBLE_DEVICES="3,GPU-a" names 1`},
		{gpu: "1.5", visible: "GPU-a,GPU-b,GPU-c", want: "GPU-a"},
		{gpu: "1.5", visible: "7", says: "names 1"},
		{gpu: "0", visible: "NoDevFiles", want: ""},
	} {
		t.Setenv("RAYSYS_CONSUL", "")
		t.Setenv("RAYSYS_GPUS", "")
		t.Setenv("RAYSYS_GPU", c.gpu)
		t.Setenv("CUDA_VISIBLE_DEVICES", c.visible)
		cfg, err := system.FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Table = raysys.NewTable()
		env := tasks.DefineIn(cfg.Table, "env", func(ctx context.Context, _ int) ([]string, error) { return raysys.DeviceEnv(ctx), nil })
		err = system.Run(context.Background(), cfg, func(ctx context.Context) error {
			got, err := env.With(raysys.GPU(math.Floor(cfg.Resources.GPU))).Go(ctx, 0).Get(ctx)
			if want := "CUDA_VISIBLE_DEVICES=" + c.want; err == nil && (len(got) != 1 || got[0] != want) {
				t.Errorf("RAYSYS_GPU=%s and CUDA_VISIBLE_DEVICES=%s: a child has %q, want %s", c.gpu, c.visible, got, want)
			}
			return err
		})
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("RAYSYS_GPU=%s and CUDA_VISIBLE_DEVICES=%s: %v; want %q", c.gpu, c.visible, err, c.says)
		}
	}
}
