package net_test

import (
	"math"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

func TestSoftmax(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		name    string
		logits  []float32
		probs   []float64
		entropy float64
	}{
		{"one action", []float32{-3}, []float64{1}, 0},
		{"equal", []float32{5, 5, 5, 5}, []float64{0.25, 0.25, 0.25, 0.25}, math.Log(4)},
		{"1 to 3", []float32{0, float32(math.Log(3))}, []float64{0.25, 0.75}, 0.25*math.Log(4) + 0.75*math.Log(4./3)},
		{"of large logits", []float32{1e4, 1e4 - 1e3}, []float64{1, 0}, 0},
		{"one that cannot be taken", []float32{2, -inf, 2}, []float64{0.5, 0, 0.5}, math.Log(2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			probs, logs := make([]float32, len(tc.logits)), make([]float32, len(tc.logits))
			net.Softmax(probs, tc.logits)
			net.LogSoftmax(logs, tc.logits)
			for i, want := range tc.probs {
				if !near(float64(probs[i]), want) || !near(math.Exp(float64(logs[i])), want) {
					t.Errorf("action %d: probability %v and logarithm %v, want a probability of %v", i, probs[i], logs[i], want)
				}
			}
			if got := net.Entropy(logs); !near(float64(got), tc.entropy) {
				t.Errorf("entropy %v, want %v", got, tc.entropy)
			}
			net.LogSoftmax(tc.logits, tc.logits)
			for i := range logs {
				if tc.logits[i] != logs[i] {
					t.Errorf("in place the log-probabilities are %v, else %v", tc.logits, logs)
				}
			}
		})
	}
}

func TestArgMax(t *testing.T) {
	for _, tc := range []struct {
		x    []float32
		want int
	}{
		{[]float32{-1}, 0},
		{[]float32{-3, -1, -2}, 1},
		{[]float32{1, 2, 2}, 1},
	} {
		if got := net.ArgMax(tc.x); got != tc.want {
			t.Errorf("of %v: %d, want %d", tc.x, got, tc.want)
		}
	}
}

func TestHuber(t *testing.T) {
	for _, tc := range []struct{ err, limit, loss, slope float32 }{
		{0, 1, 0, 0},
		{0.5, 1, 0.125, 0.5},
		{-0.5, 1, 0.125, -0.5},
		{2, 2, 2, 2},
		{3, 2, 4, 2},
		{-3, 2, 4, -2},
	} {
		if loss, slope := net.Huber(tc.err, tc.limit); loss != tc.loss || slope != tc.slope {
			t.Errorf("of %v, limit %v: %v with slope %v, want %v with %v", tc.err, tc.limit, loss, slope, tc.loss, tc.slope)
		}
	}
}

// TestGaussian compares with the density as it is defined, and its slopes with central differences of that.
func TestGaussian(t *testing.T) {
	action, mean, logStd := []float32{0.5, -2, 3}, []float32{0.25, -1, 3}, []float32{0, -1, 0.75}
	density := func(mean, logStd []float64) (sum float64) {
		for i, a := range wide(action) {
			std := math.Exp(logStd[i])
			sum += math.Log(math.Exp(-(a-mean[i])*(a-mean[i])/(2*std*std)) / (std * math.Sqrt(2*math.Pi)))
		}
		return sum
	}
	m, s := wide(mean), wide(logStd)
	if got, want := float64(net.GaussianLogDensity(action, mean, logStd)), density(m, s); !near(got, want) {
		t.Errorf("log-density %v, want %v", got, want)
	}
	byMean, byLogStd := make([]float32, 3), make([]float32, 3)
	net.GaussianSlopes(byMean, byLogStd, action, mean, logStd)
	for i := range 3 {
		for _, by := range []struct {
			what string
			x    []float64
			got  float32
		}{{"mean", m, byMean[i]}, {"logStd", s, byLogStd[i]}} {
			const h = 1e-5
			was := by.x[i]
			by.x[i] = was + h
			above := density(m, s)
			by.x[i] = was - h
			want := (above - density(m, s)) / (2 * h)
			by.x[i] = was
			if math.Abs(float64(by.got)-want) > 1e-5 {
				t.Errorf("slope by %s %d is %v, finite differences %v", by.what, i, by.got, want)
			}
		}
	}
	want := 0.0
	for _, ls := range s {
		want += math.Log(math.Exp(ls) * math.Sqrt(2*math.Pi*math.E))
	}
	if got := float64(net.GaussianEntropy(logStd)); !near(got, want) {
		t.Errorf("entropy %v, want %v", got, want)
	}
}
