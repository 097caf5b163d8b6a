package ppo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// TestAdvantages is worked by hand for rewards 1 1 1, values 0.5 0.6 0.7 and
// gamma 0.5. For lambda 0.5, done:
//
//	delta = 1+0.5*0.6-0.5  1+0.5*0.7-0.6  1-0.7 = 0.8 0.75 0.3
//	A[2] = 0.3, A[1] = 0.75+0.25*0.3 = 0.825, A[0] = 0.8+0.25*0.825 = 1.00625
//
// Lambda 0 leaves the deltas, lambda 1 the return 1.75 1.5 1 less the value.
func TestAdvantages(t *testing.T) {
	for _, tc := range []struct {
		name              string
		bootstrap, lambda float64
		want              []float64
	}{
		{"done", 0, 0.5, []float64{1.00625, 0.825, 0.3}},
		{"truncated", 2, 0.5, []float64{1.06875, 1.075, 1.3}},
		{"one step", 0, 0, []float64{0.8, 0.75, 0.3}},
		{"whole return", 0, 1, []float64{1.25, 0.9, 0.3}},
		{"whole return, truncated", 2, 1, []float64{1.5, 1.4, 1.3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := make([]float64, 3)
			ppo.Advantages(got, []float64{1, 1, 1}, []float64{0.5, 0.6, 0.7}, tc.bootstrap, 0.5, tc.lambda)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
