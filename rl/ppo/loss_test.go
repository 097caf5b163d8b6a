package ppo

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestClipped(t *testing.T) {
	for _, tc := range []struct {
		name             string
		ratio, advantage float64
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
			surrogate, slope := clipped(tc.ratio, tc.advantage, 0.2)
			if math.Abs(surrogate-tc.surrogate) > 1e-12 || slope != tc.slope {
				t.Errorf("got %v with slope %v, want %v with %v", surrogate, slope, tc.surrogate, tc.slope)
			}
		})
	}
}

// slopesOf are those of f by each number of x, by central differences: f rounds to float32, so that a narrower one would be noise.
func slopesOf(f func() float64, x []float32) []float64 {
	const width = 1. / 256
	list := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + width
		up := f()
		x[i] = v - width
		list[i] = (up - f()) / (2 * width)
		x[i] = v
	}
	return list
}

func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	most := 0.0
	for i := range got {
		most = max(most, math.Abs(want[i]))
		if d := math.Abs(float64(got[i]) - want[i]); !(d < 2e-4) {
			t.Errorf("by %s %d: %v, finite differences %v", what, i, got[i], want[i])
		}
	}
	if most < 0.01 {
		t.Errorf("no slope by %s is above %v: the check shows nothing", what, most)
	}
}

// TestSlopes compares the slopes of the loss by the outputs of the policy net, and by what stands beside it, with finite differences, on rows of which about a
// third is beyond the clip.
func TestSlopes(t *testing.T) {
	const rows = 24
	c := &Config{Clip: 0.2, Entropy: 0.5}
	for _, tc := range []struct {
		head          head
		width, beside int
		draw          func(rng *rand.Rand, out []float32) []float32
	}{
		{&softmax{logProbs: make([]float32, 4)}, 4, 0, func(rng *rand.Rand, _ []float32) []float32 { return []float32{float32(rng.IntN(4))} }},
		{gaussian{}, 2, 2, func(rng *rand.Rand, out []float32) []float32 {
			return []float32{out[0] + float32(rng.NormFloat64()), out[1] + float32(rng.NormFloat64())}
		}},
	} {
		t.Run(tc.head.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 0))
			out, beside := make([]float32, rows*tc.width), make([]float32, tc.beside)
			for i := range out {
				out[i] = float32(rng.NormFloat64())
			}
			for i := range beside {
				beside[i] = float32(0.3 * rng.NormFloat64())
			}
			var b batch
			beyond := 0
			for i := range rows {
				o := out[i*tc.width : (i+1)*tc.width]
				drawn := tc.draw(rng, o)
				logProb, _ := tc.head.weigh(o, beside, drawn)
				moved := 0.2 * rng.NormFloat64()
				if math.Abs(math.Exp(-moved)-1) > c.Clip {
					beyond++
				}
				b.drawn = append(b.drawn, drawn...)
				b.logProbs = append(b.logProbs, float32(logProb+moved))
				b.advantages = append(b.advantages, float32(rng.NormFloat64()))
			}
			if beyond < rows/6 || beyond > rows*5/6 {
				t.Errorf("%d of %d rows are beyond the clip: the check is about one side only", beyond, rows)
			}
			dOut, dBeside := make([]float32, len(out)), make([]float32, len(beside))
			loss := func(dOut, dBeside []float32) float64 {
				var sum losses
				policyLoss(tc.head, dOut, dBeside, out, beside, &b, c, &sum)
				return sum.loss / rows
			}
			loss(dOut, dBeside)
			again := func() float64 { return loss(make([]float32, len(out)), make([]float32, len(beside))) }
			near(t, "output", dOut, slopesOf(again, out))
			if len(beside) > 0 {
				near(t, "log std", dBeside, slopesOf(again, beside))
			}
		})
	}
}

func TestValueLoss(t *testing.T) {
	out, wanted, dOut := []float32{1, 2, -1}, []float32{0.5, 2, 1}, make([]float32, 3)
	loss := func(dOut []float32) float64 {
		var sum losses
		valueLoss(dOut, out, wanted, &sum)
		return sum.loss / 3
	}
	if got, want := loss(dOut), (0.25+4)/6; math.Abs(got-want) > 1e-7 {
		t.Errorf("loss %v, want %v", got, want)
	}
	near(t, "output", dOut, slopesOf(func() float64 { return loss(make([]float32, 3)) }, out))
}

// TestDivergence: the estimate is 0 where nothing moved, and r - 1 - log r where the ratio is r.
func TestDivergence(t *testing.T) {
	h := gaussian{}
	out, beside := []float32{0.5}, []float32{0}
	logProb, _ := h.weigh(out, beside, []float32{1})
	for _, moved := range []float64{0, 0.3, -0.3} {
		b := batch{drawn: []float32{1}, logProbs: []float32{float32(logProb - moved)}, advantages: []float32{1}}
		var sum losses
		policyLoss(h, make([]float32, 1), make([]float32, 1), out, beside, &b, &Config{Clip: 0.2}, &sum)
		if want := math.Exp(moved) - 1 - moved; math.Abs(sum.kl-want) > 1e-6 {
			t.Errorf("log ratio %v: divergence %v, want %v", moved, sum.kl, want)
		}
	}
}
