package core_test

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

func TestOfModel(t *testing.T) {
	for _, c := range []struct {
		model, asked string
		want         bool
	}{
		{"NVIDIA H100 80GB HBM3", "", true},
		{"NVIDIA H100 80GB HBM3", "H100", true},
		{"NVIDIA H100 80GB HBM3", "h100 80gb", true},
		{"NVIDIA H100 80GB HBM3", "nvidia-h100", true},
		{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", true},
		{"NVIDIA H100 80GB HBM3", "H200", false},
		{"NVIDIA A100-SXM4-40GB", "A10", false},
		{"NVIDIA A100-SXM4-40GB", "A100", true},
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100", false},
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100 MIG 1g.5gb", true},
		{"", "H100", false},
		{"", "", true},
	} {
		if got := core.OfModel(c.model, c.asked); got != c.want {
			t.Errorf("a device %q, asked for %q: %v", c.model, c.asked, got)
		}
	}
}
