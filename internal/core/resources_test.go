package core_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestResourcesBounded: amounts that no node has are refused, so that their sums stay numbers.
func TestResourcesBounded(t *testing.T) {
	for _, r := range []core.Resources{
		{CPU: 2e9},
		{GPU: math.Inf(1)},
		{Memory: math.MaxInt64},
		{Memory: 1<<53 + 1},
		{GPUMemory: math.MaxInt64},
		{Custom: map[string]float64{"licence": 1e300}},
	} {
		if err := r.Validate(); !errors.Is(err, core.ErrBadOption) {
			t.Errorf("%+v: %v, want one that matches ErrBadOption", r, err)
		}
	}
	most := core.Resources{CPU: 1e9, GPU: 1e9, GPUMemory: 1 << 53, Memory: 1 << 53, Custom: map[string]float64{"licence": 1e9}}
	if err := most.Validate(); err != nil {
		t.Errorf("the most that a node may have: %v", err)
	}
}

// TestOwnNames: a custom resource has no name of another, which work would take for that.
func TestOwnNames(t *testing.T) {
	for _, name := range []string{"CPU", "cpu", "GPU", "Gpu", "Memory", "gpu_memory", "GPUMemory", "gpu-model"} {
		if err := (core.Resources{Custom: map[string]float64{name: 1}}).Meant(); !errors.Is(err, core.ErrBadOption) || !strings.Contains(err.Error(), "no custom resource") {
			t.Errorf("%s: %v, want one that matches ErrBadOption", name, err)
		}
	}
	if err := (core.Resources{Custom: map[string]float64{"gpu2": 1, "memory.ssd": 1}}).Meant(); err != nil {
		t.Errorf("names of their own: %v", err)
	}
}

// TestResourcesMeant: amounts that would be rounded are refused; sums of thousandths are not, however they were added.
func TestResourcesMeant(t *testing.T) {
	for _, r := range []core.Resources{{CPU: 0.0015}, {CPU: 1.0005}, {GPU: 0.9996}, {GPU: 1.0 / 3}, {Custom: map[string]float64{"licence": 2.00001}}} {
		if err := r.Meant(); !errors.Is(err, core.ErrBadOption) {
			t.Errorf("%+v: %v, want one that matches ErrBadOption", r, err)
		}
	}
	sum := 0.0
	for range 100_000 {
		sum += 0.001
	}
	for _, v := range []float64{0, 0.001, 0.3, 0.1 + 0.2, 1 - 0.9, sum, 1.1 * 3, 123456.789, 999_999_999.999, 1e9} {
		if err := (core.Resources{CPU: v, GPU: v, Custom: map[string]float64{"licence": v}}).Meant(); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}
