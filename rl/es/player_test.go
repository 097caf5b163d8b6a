package es

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

var (
	three = Define("es-test-pair", envs.CartPole, Config{Episodes: 3, Sigma: 0.5})
	tree  = Define("es-test-tree", envs.CartPole, Config{})
)

// TestPair against the sum of the definition: each candidate is played alone.
func TestPair(t *testing.T) {
	s := three
	center := s.fresh(7, 0)
	var got heard
	got.Sum = make([]float32, len(center))
	want := make([]float64, len(center))
	returns := 0.0
	for n := range uint64(5) {
		if err := s.pair(&got, 3, n, center); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, n))
		noise := make([]float64, len(center))
		for i := range noise {
			noise[i] = rng.NormFloat64()
		}
		var of [2]float64
		for k, sign := range []float64{1, -1} {
			p := &policy{model: s.model, params: make([]float32, len(center))}
			for i := range noise {
				p.params[i] = center[i] + float32(sign*0.5)*float32(noise[i])
			}
			var err error
			if of[k], err = rl.Evaluate(envs.CartPole, mix(3, n), p, 3); err != nil {
				t.Fatal(err)
			}
			returns += of[k]
		}
		for i := range want {
			want[i] += (of[0] - of[1]) * noise[i]
		}
	}
	if math.Abs(got.Returns-returns) > 1e-9 || got.Episodes != 10 || got.Steps != int(math.Round(3*returns)) { // a step of CartPole has reward 1
		t.Errorf("%v in %d episodes of %d steps, want %v", got.Returns, got.Episodes, got.Steps, returns)
	}
	for i, x := range got.Sum {
		if math.Abs(float64(x)-want[i]) > 1e-3 {
			t.Fatalf("number %d of the sum is %v, want %v", i, x, want[i])
		}
	}
}

// TestTree: however many players share the candidates, and in whatever tree, each candidate is played once.
func TestTree(t *testing.T) {
	s := tree
	play := func(workers int) (h heard) {
		for i := range workers {
			part, err := s.share(t.Context(), order{What: drawn, Player: i, Workers: workers, Candidates: 40, First: 9, Seed: 5})
			if err != nil {
				t.Fatal(err)
			}
			h.add(part)
		}
		return h
	}
	want := play(1)
	for _, workers := range []int{2, 7, 64} {
		if got := play(workers); got.Steps != want.Steps || got.Episodes != 40 || got.BestOf != want.BestOf || got.Best != want.Best {
			t.Errorf("%d workers: %+v, want %+v", workers, got, want)
		}
	}
	if want.Best <= want.Returns/40 || want.BestOf < 9 || want.BestOf >= 49 {
		t.Errorf("%+v", want)
	}
}
