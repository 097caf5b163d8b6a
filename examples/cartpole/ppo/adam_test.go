package ppo_test

import (
	"math"
	"testing"

	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// TestAdamSteps works two cases by hand. A constant gradient g has corrected
// means g and g^2, so each step is rate g/(|g|+1e-5). For 1 then -1 the second
// step has m = 0.9*0.1-0.1 = -0.01, corrected by 0.19, and v = 1 once corrected.
func TestAdamSteps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grads []float64
		want  []float64 // the change of each step, in rates
	}{
		{"constant", []float64{4, 4, 4}, []float64{-4 / (4 + 1e-5), -4 / (4 + 1e-5), -4 / (4 + 1e-5)}},
		{"reversed", []float64{1, -1}, []float64{-1 / (1 + 1e-5), 0.01 / 0.19 / (1 + 1e-5)}},
		{"none", []float64{0, 0}, []float64{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const rate = 0.1
			var a ppo.Adam
			x := []float64{3}
			for i, g := range tc.grads {
				before := x[0]
				a.Step(x, []float64{g}, rate)
				if got := (x[0] - before) / rate; math.Abs(got-tc.want[i]) > 1e-12 {
					t.Errorf("step %d: moved %v rates, want %v", i+1, got, tc.want[i])
				}
			}
			if a.Steps != len(tc.grads) {
				t.Errorf("%d steps counted, want %d", a.Steps, len(tc.grads))
			}
		})
	}
}

func TestAdamFindsMinimum(t *testing.T) {
	var a ppo.Adam
	x := []float64{5, -7}
	for range 2000 {
		a.Step(x, []float64{2 * (x[0] - 1), 200 * (x[1] - 2)}, 0.02)
	}
	if math.Abs(x[0]-1) > 1e-2 || math.Abs(x[1]-2) > 1e-2 {
		t.Errorf("ended at %v, the minimum is at 1, 2", x)
	}
}
