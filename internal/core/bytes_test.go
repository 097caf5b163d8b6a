package core_test

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 7: "7 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 4 << 20: "4 MiB", 60 << 30: "60 GiB", 14_000_000_000: "13.04 GiB",
		1 << 40: "1 TiB", 1 << 53: "8 PiB", 1 << 62: "4096 PiB",
	} {
		if got := core.Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestListed(t *testing.T) {
	for want, items := range map[string][]string{
		"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}, "a, b, c or d": {"a", "b", "c", "d"}, "a, b, c, d and 2 more": {"a", "b", "c", "d", "e", "f"},
	} {
		if got := core.Listed(items, " or "); got != want {
			t.Errorf("%q: %q, want %q", items, got, want)
		}
	}
}

// TestDeviceKinds: where no device does, what is said is that which keeps them from it.
func TestDeviceKinds(t *testing.T) {
	type device struct {
		model  string
		memory int64
		share  float64
	}
	all := []device{{"NVIDIA V100", 32 << 30, 1}, {"NVIDIA H100", 80 << 30, 0.25}, {"NVIDIA H100", 80 << 30, 0.5}, {"", 0, 1}}
	for want, c := range map[string]struct {
		asks    core.Resources
		devices []device
	}{
		"no GPU": {core.Resources{GPU: 1}, nil},
		`GPUModel "NVIDIA H100" or "NVIDIA V100"`: {core.Resources{GPU: 1, GPUModel: "B200"}, all},
		"GPUs whose model is not known":           {core.Resources{GPU: 1, GPUModel: "B200"}, all[3:]},
		"GPUs whose memory is not known":          {core.Resources{GPU: 1, GPUMemory: 1}, all[3:]},
		"GPUMemory 80 GiB":                        {core.Resources{GPU: 1, GPUMemory: 200 << 30}, all},
		"GPUMemory 32 GiB":                        {core.Resources{GPU: 1, GPUModel: "V100", GPUMemory: 60 << 30}, all},
		"GPU 0.5":                                 {core.Resources{GPU: 1, GPUModel: "H100"}, all},
	} {
		k := core.DeviceKinds{Want: c.asks}
		for _, d := range c.devices {
			k.Add(d.model, d.memory, d.share)
		}
		if got := k.String(); got != want {
			t.Errorf("%v: %q, want %q", c.asks, got, want)
		}
	}
}
