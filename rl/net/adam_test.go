package net_test

import (
	"math"
	"slices"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

// TestAdamAgainstOptax: the parameters after each of four steps are those that optax 0.2.8 gives on jax 0.10.2 in float64 (in float32 it
// rounds the correction of the bias), with optax.adam(0.1, b1=..., b2=..., eps=...).
func TestAdamAgainstOptax(t *testing.T) {
	grads := [][]float32{{0.5, -1, 1e-4}, {-0.25, 3, 2e-4}, {2, 0, -1e-4}, {0.125, -0.5, 0}}
	for _, tc := range []struct {
		name string
		adam net.Adam
		want [][]float64
	}{
		{"defaults", net.Adam{}, [][]float64{
			{0.9000000020, -1.9000000010, 0.4000099990},
			{0.8733662987, -1.9494189841, 0.3034978995},
			{0.8063015345, -1.9876200012, 0.2614919394},
			{0.7479718939, -2.0094421862, 0.2270835899},
		}},
		{"all set", net.Adam{Beta1: 0.8, Beta2: 0.99, Epsilon: 1e-5}, [][]float64{
			{0.9000020000, -1.9000010000, 0.4090909091},
			{0.8788888301, -1.9545506579, 0.3166919508},
			{0.8067372959, -1.9940787321, 0.2831299269},
			{0.7475449922, -2.0133470626, 0.2577037480},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := []float32{1, -2, 0.5}
			for i, g := range grads {
				tc.adam.Step(params, g, 0.1)
				for j, want := range tc.want[i] {
					if math.Abs(float64(params[j])-want) > 4e-7 {
						t.Errorf("step %d: parameter %d is %v, want %v", i+1, j, params[j], want)
					}
				}
			}
		})
	}
}

// TestAdamByHand: a constant gradient g has the corrected means g and g^2, so that each step is rate g/(|g|+epsilon). For 1 then -1 the second step has
// m = 0.9*0.1-0.1 = -0.01, corrected by 0.19, and v = 1 once corrected.
func TestAdamByHand(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grads []float32
		want  []float64 // the change of each step, in rates
	}{
		{"constant", []float32{4, 4, 4}, []float64{-1, -1, -1}},
		{"reversed", []float32{1, -1}, []float64{-1, 0.01 / 0.19}},
		{"none", []float32{0, 0}, []float64{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const rate = 0.125
			var a net.Adam
			x := []float32{0}
			for i, g := range tc.grads {
				before := x[0]
				a.Step(x, []float32{g}, rate)
				if got := float64(x[0]-before) / rate; math.Abs(got-tc.want[i]) > 1e-5 {
					t.Errorf("step %d: moved %v rates, want %v", i+1, got, tc.want[i])
				}
			}
			if a.Steps != len(tc.grads) {
				t.Errorf("%d steps counted, want %d", a.Steps, len(tc.grads))
			}
		})
	}
}

// TestAdamContinues: an optimizer from its saved fields goes on as if it had never stopped.
func TestAdamContinues(t *testing.T) {
	whole, params := net.Adam{Epsilon: 1e-5}, []float32{1, -1}
	whole.Step(params, []float32{0.5, 2}, 0.1)
	saved := net.Adam{Epsilon: 1e-5, M: slices.Clone(whole.M), V: slices.Clone(whole.V), Steps: whole.Steps}
	restored := slices.Clone(params)
	for range 3 {
		whole.Step(params, []float32{-1, 0.25}, 0.1)
		saved.Step(restored, []float32{-1, 0.25}, 0.1)
	}
	if !slices.Equal(params, restored) {
		t.Errorf("the restored optimizer came to %v, the other to %v", restored, params)
	}
}

func TestClipNorm(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct {
		name  string
		grads []float32
		limit float64
		norm  float64
		want  []float32
	}{
		{"within", []float32{3, 4}, 6, 5, []float32{3, 4}},
		{"at the limit", []float32{3, 4}, 5, 5, []float32{3, 4}},
		{"beyond", []float32{3, -4}, 2.5, 5, []float32{1.5, -2}},
		{"none", nil, 1, 0, nil},
		{"squares beyond float32", []float32{3e30, 4e30}, 5, 5e30, []float32{3, 4}},
		{"infinite", []float32{1, inf}, 1, math.Inf(1), []float32{1, inf}},
		{"no number", []float32{1, nan}, 1, math.NaN(), []float32{1, nan}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := net.ClipNorm(tc.grads, tc.limit)
			if !near(got, tc.norm) {
				t.Errorf("norm %v, want %v", got, tc.norm)
			}
			for i, g := range tc.grads {
				if !near(float64(g), float64(tc.want[i])) {
					t.Errorf("clipped to %v, want %v", tc.grads, tc.want)
				}
			}
		})
	}
}

// near reports whether two numbers agree to 1e-6 of the larger, or are one infinity, or no numbers both.
func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))
}
