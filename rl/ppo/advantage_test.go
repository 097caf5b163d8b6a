package ppo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestAdvantages is worked by hand for rewards 1 1 1, values 0.5 0.6 0.7 and gamma 0.5. For lambda 0.5, terminated:
//
//	delta = 1+0.5*0.6-0.5  1+0.5*0.7-0.6  1-0.7 = 0.8 0.75 0.3
//	A[2] = 0.3, A[1] = 0.75+0.25*0.3 = 0.825, A[0] = 0.8+0.25*0.825 = 1.00625
//
// Lambda 0 leaves the deltas, lambda 1 the return 1.75 1.5 1 less the value.
func TestAdvantages(t *testing.T) {
	terminated, goesOn := []float32{1, 1, 0}, []float32{1, 1, 1}
	for _, tc := range []struct {
		name          string
		discounts     []float32
		lambda, scale float64
		want          []float32
	}{
		{"terminated", terminated, 0.5, 1, []float32{1.00625, 0.825, 0.3}},
		{"truncated", goesOn, 0.5, 1, []float32{1.06875, 1.075, 1.3}},
		{"one step", terminated, 1e-9, 1, []float32{0.8, 0.75, 0.3}},
		{"whole return", terminated, 1, 1, []float32{1.25, 0.9, 0.3}},
		{"whole return, truncated", goesOn, 1, 1, []float32{1.5, 1.4, 1.3}},
		{"terminated in between", []float32{1, 0, 1}, 0.5, 1, []float32{0.9, 0.4, 1.3}},
		{"scaled", terminated, 1, 2, []float32{3, 2.4, 1.3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := make([]float32, 3)
			advantages(got, []float32{1, 1, 1}, tc.discounts, []float32{0.5, 0.6, 0.7, 2}, &Config{Gamma: 0.5, Lambda: tc.lambda, RewardScale: tc.scale})
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStandardize(t *testing.T) {
	x := []float32{10001, 10003, 10001, 10003}
	standardize(x)
	if diff := cmp.Diff([]float32{-1, 1, -1, 1}, x, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x = []float32{7, 7}
	standardize(x)
	if x[0] != 0 || x[1] != 0 {
		t.Errorf("a constant became %v", x)
	}
}
