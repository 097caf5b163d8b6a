package ppo

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/raysys/raysys/examples/cartpole/env"
)

// TestGradients compares both gradients with central differences, on a batch in
// which about a third of the rows is beyond the clip.
func TestGradients(t *testing.T) {
	const rows, clip, entropy = 24, 0.2, 0.05
	rng := Stream(1, 0, 0)
	w := NewWeights(env.Spec{Obs: 3, Actions: 4}, 8, 1)
	x := newGeneral(rows, w.Obs)
	for i := range x.Data {
		x.Data[i] = rng.NormFloat64()
	}
	actions, old := make([]int32, rows), make([]float64, rows)
	adv, returns := make([]float64, rows), make([]float64, rows)
	policy, value := w.policyNet(), w.valueNet()
	onPolicy, onValue := policy.newPass(rows), value.newPass(rows)
	// A policy away from its undecided start, so that the entropy has a slope.
	for i := range w.Policy {
		w.Policy[i] += 0.3 * rng.NormFloat64()
	}
	logits := policy.forward(w.Policy, x, onPolicy)
	logProbs := make([]float64, w.Actions)
	for i := range rows {
		actions[i] = int32(rng.IntN(w.Actions))
		logSoftmax(logProbs, logits.Data[i*w.Actions:(i+1)*w.Actions])
		old[i] = logProbs[actions[i]] + 0.2*rng.NormFloat64()
		adv[i], returns[i] = rng.NormFloat64(), rng.NormFloat64()
	}

	lossOfPolicy := func(params []float64) (float64, policyTerms) {
		var terms policyTerms
		logits := policy.forward(params, x, onPolicy)
		policyLoss(policy.output(onPolicy, rows), logits, actions, old, adv, clip, entropy, logProbs, &terms)
		return (terms.loss - entropy*terms.entropy) / rows, terms
	}
	lossOfValue := func(params []float64) float64 {
		predicted := value.forward(params, x, onValue)
		return valueLoss(value.output(onValue, rows), predicted, returns) / rows
	}

	for _, tc := range []struct {
		name   string
		net    net
		pass   *pass
		params []float64
		loss   func([]float64) float64
	}{
		{"policy", policy, onPolicy, w.Policy, func(p []float64) float64 { l, _ := lossOfPolicy(p); return l }},
		{"value", value, onValue, w.Value, lossOfValue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := fd.Gradient(nil, tc.loss, tc.params, &fd.Settings{Formula: fd.Central})
			tc.loss(tc.params)
			got := make([]float64, tc.net.size())
			tc.net.backward(tc.params, x, tc.pass, got)
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-7 {
					t.Fatalf("by parameter %d: %v, finite differences %v", i, got[i], want[i])
				}
			}
		})
	}
	if _, terms := lossOfPolicy(w.Policy); terms.clipped < rows/6 || terms.clipped > rows*5/6 {
		t.Errorf("%d of %d rows beyond the clip: the check is about one side only", terms.clipped, rows)
	}
}

func TestClippedSurrogate(t *testing.T) {
	for _, tc := range []struct {
		name             string
		ratio, adv       float64
		surrogate, slope float64
	}{
		{"good, inside", 1.1, 2, 2.2, 2},
		{"good, already likelier", 1.5, 2, 2.4, 0},
		{"good, become unlikely", 0.5, 2, 1.0, 2},
		{"bad, inside", 0.9, -2, -1.8, -2},
		{"bad, already unlikely", 0.5, -2, -1.6, 0},
		{"bad, become likelier", 1.5, -2, -3.0, -2},
		{"neither", 1.5, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			surrogate, slope := clippedSurrogate(tc.ratio, tc.adv, 0.2)
			if math.Abs(surrogate-tc.surrogate) > 1e-12 || slope != tc.slope {
				t.Errorf("got %v with slope %v, want %v with %v", surrogate, slope, tc.surrogate, tc.slope)
			}
		})
	}
}

func TestOrthogonal(t *testing.T) {
	for _, shape := range [][2]int{{4, 64}, {64, 64}, {64, 2}, {64, 1}} {
		w := newGeneral(shape[0], shape[1])
		orthogonal(w, 3, Stream(1, 0, 0))
		// The vectors along the shorter side are orthogonal and of length 3.
		short := min(w.Rows, w.Cols)
		vector := func(i int) blas64.Vector {
			if w.Rows <= w.Cols {
				return blas64.Vector{N: w.Cols, Inc: 1, Data: w.Data[i*w.Stride:]}
			}
			return blas64.Vector{N: w.Rows, Inc: w.Stride, Data: w.Data[i:]}
		}
		for i := range short {
			for j := range short {
				want := 0.0
				if i == j {
					want = 9
				}
				if got := blas64.Dot(vector(i), vector(j)); math.Abs(got-want) > 1e-12 {
					t.Fatalf("%v: product of %d and %d is %v, want %v", shape, i, j, got, want)
				}
			}
		}
	}
}

// The ratio of the first epoch is 1 only if the single observation and the batch
// mean the same.
func TestPolicyAgreesWithBatch(t *testing.T) {
	spec := env.NewCartPole().Spec()
	w := NewWeights(spec, 64, 1)
	traj := Rollout(w, env.NewCartPole(), 64, Stream(1, 0, 0))
	n := w.policyNet()
	x := blas64.General{Rows: traj.Steps(), Cols: spec.Obs, Stride: spec.Obs, Data: traj.Obs}
	logits := n.forward(w.Policy, x, n.newPass(x.Rows))
	logProbs := make([]float64, spec.Actions)
	p := NewPolicy(w)
	for i, a := range traj.Actions {
		logSoftmax(logProbs, logits.Data[i*spec.Actions:(i+1)*spec.Actions])
		if d := math.Abs(logProbs[a] - traj.LogProbs[i]); d > 1e-12 {
			t.Fatalf("step %d: log-probabilities differ by %v", i, d)
		}
		if d := math.Abs(p.Value(traj.Obs[i*spec.Obs:(i+1)*spec.Obs]) - traj.Values[i]); d > 1e-12 {
			t.Fatalf("step %d: values differ by %v", i, d)
		}
	}
}
