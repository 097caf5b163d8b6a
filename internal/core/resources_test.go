package core_test

import (
	"errors"
	"math"
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
