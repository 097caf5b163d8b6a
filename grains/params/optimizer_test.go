package params

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Errorf("%s: element %d is %.12f, want %.12f", what, i, got[i], want[i])
		}
	}
}

// The wanted numbers are computed by hand from the formulas.
func TestSteps(t *testing.T) {
	w, g := []float64{1, -2}, []float64{0.5, -1}

	step(SGD(0.1), w, w, g, &memory[float64]{}, 1)
	near(t, "SGD", w, []float64{0.95, -1.9})

	// v = 0.5, then 0.9*0.5 + 0.5 = 0.95; w = 1 - 0.1*0.5 = 0.95, then 0.95 - 0.1*0.95 = 0.855.
	w = []float64{1, -2}
	m := &memory[float64]{}
	step(Momentum(0.1, 0.9), w, w, g, m, 1)
	near(t, "Momentum 1", w, []float64{0.95, -1.9})
	step(Momentum(0.1, 0.9), w, w, g, m, 2)
	near(t, "Momentum 2", w, []float64{0.855, -1.71})

	// With the bias corrected the first step of Adam is rate * g/(|g| + epsilon): 0.1 against the gradient's sign.
	w = []float64{1, -2}
	m = &memory[float64]{}
	step(Adam(0.1), w, w, g, m, 1)
	near(t, "Adam 1", w, []float64{1 - 0.1*0.5/(0.5+1e-8), -2 + 0.1/(1+1e-8)})
	// Then g = (1, 0): mean (0.9*0.05 + 0.1*1)/0.19 = 0.145/0.19, square (0.999*0.00025 + 0.001*1)/0.001999.
	step(Adam(0.1), w, w, []float64{1, 0}, m, 2)
	near(t, "Adam 2", w, []float64{
		1 - 0.1*0.5/(0.5+1e-8) - 0.1*(0.145/0.19)/(math.Sqrt(0.00124975/0.001999)+1e-8),
		-2 + 0.1/(1+1e-8) + 0.1*(0.09/0.19)/(math.Sqrt(0.000999/0.001999)+1e-8),
	})
}

// TestStepElsewhere: a step leaves the old weights alone when it is told to write elsewhere.
func TestStepElsewhere(t *testing.T) {
	for _, o := range []Optimizer{SGD(0.1), Momentum(0.1, 0.9), Adam(0.1)} {
		w, g := []float32{1, -2, 3}, []float32{1, 1, -1}
		in, dst := []float32{1, -2, 3}, make([]float32, 3)
		var a, b memory[float32]
		for i := range uint64(3) {
			step(o, dst, w, g, &a, i+1)
			step(o, in, in, g, &b, i+1)
			if w[0] == dst[0] {
				t.Errorf("rule %d: nothing moved", o.Rule)
			}
			w = dst
			dst = make([]float32, 3)
			for j := range w {
				if w[j] != in[j] {
					t.Errorf("rule %d, step %d: %v elsewhere and %v in place", o.Rule, i+1, w, in)
				}
			}
		}
	}
}
