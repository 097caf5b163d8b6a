package impala

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// drawn is a trajectory with numbers of all kinds: steps that ended an episode too, which no item of the adder has in its middle.
func drawn(rng *rand.Rand, n int) (ratios, rewards, discounts, values []float32) {
	for range n {
		ratios = append(ratios, float32(rng.NormFloat64()))
		rewards = append(rewards, float32(rng.NormFloat64()))
		discounts = append(discounts, float32(min(1, rng.IntN(5))))
		values = append(values, float32(rng.NormFloat64()))
	}
	return ratios, rewards, discounts, append(values, float32(rng.NormFloat64()))
}

// TestVTrace compares the recursion with the sum of the paper, term by term:
//
//	wanted[s] = V[s] + sum over t >= s of (gamma d[s])...(gamma d[t-1]) c[s]...c[t-1] delta[t]
func TestVTrace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		c := &Config{Gamma: 0.5 + rng.Float64()/2, Lambda: 0.5 + rng.Float64()/2, Rho: 0.5 + 2*rng.Float64(), RewardScale: 0.1 + rng.Float64()}
		n := 1 + rng.IntN(12)
		ratios, rewards, discounts, values := drawn(rng, n)
		wanted, advantages := make([]float32, n), make([]float32, n)
		vtrace(wanted, advantages, ratios, rewards, discounts, values, c)
		sums := make([]float64, n+1)
		rho := func(t int) float64 { return min(c.Rho, math.Exp(float64(ratios[t]))) }
		for s := range n {
			sum, factor := float64(values[s]), 1.0
			for k := s; k < n; k++ {
				discount := c.Gamma * float64(discounts[k])
				sum += factor * rho(k) * (c.RewardScale*float64(rewards[k]) + discount*float64(values[k+1]) - float64(values[k]))
				factor *= discount * c.Lambda * min(1, math.Exp(float64(ratios[k])))
			}
			sums[s] = sum
		}
		sums[n] = float64(values[n])
		for s := range n {
			a := rho(s) * (c.RewardScale*float64(rewards[s]) + c.Gamma*float64(discounts[s])*sums[s+1] - float64(values[s]))
			if math.Abs(float64(wanted[s])-sums[s]) > 1e-4 || math.Abs(float64(advantages[s])-a) > 1e-4 {
				t.Fatalf("step %d of %d: wanted %v, advantage %v; the sums say %v and %v", s, n, wanted[s], advantages[s], sums[s], a)
			}
		}
	}
}

// TestOnPolicy: where the policy that acted is the one that learns, V-trace is the return of all steps, as lambda 1 has it.
func TestOnPolicy(t *testing.T) {
	wanted, advantages := make([]float32, 3), make([]float32, 3)
	vtrace(wanted, advantages, make([]float32, 3), []float32{1, 2, 4}, []float32{1, 1, 0}, []float32{9, 8, 7, 6}, &Config{Gamma: 0.5, Lambda: 1, Rho: 1, RewardScale: 1})
	for i, want := range []float32{1 + 0.5*(2+0.5*4), 2 + 0.5*4, 4} {
		if wanted[i] != want {
			t.Errorf("step %d: %v, want the return %v", i, wanted[i], want)
		}
	}
}

// TestSlopes compares the slopes by the logits and by the values with finite differences of the loss, whose advantages and targets stand.
func TestSlopes(t *testing.T) {
	c, m, err := agent{Config{Hidden: 4}}.model(rl.Spec{Name: "buttons", Obs: []int{2}, Actions: 3})
	if err != nil {
		t.Fatal(err)
	}
	l := newLearner(c, m, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	_, rewards, discounts, values := drawn(rng, 6)
	tr := &rl.Trajectory{Rewards: rewards, Discounts: discounts}
	var logits []float32
	for range 6 {
		tr.Actions, tr.Extras = append(tr.Actions, float32(rng.IntN(3))), append(tr.Extras, float32(-rng.ExpFloat64()))
	}
	for range 7 * 3 {
		logits = append(logits, float32(rng.NormFloat64()))
	}
	l.dPolicy, l.dValue = make([]float32, len(logits)), make([]float32, len(values))
	l.slopes(tr, logits, values, 0, 1)
	advantages, wanted := append([]float32(nil), l.advantages...), append([]float32(nil), l.wanted...)
	loss := func() (sum float64) {
		lp := make([]float32, 3)
		for k := range 6 {
			net.LogSoftmax(lp, logits[k*3:][:3])
			e := float64(values[k] - wanted[k])
			sum += e*e/2 - float64(advantages[k])*float64(lp[int(tr.Actions[k])]) - c.Entropy*float64(net.Entropy(lp))
		}
		return sum
	}
	for what, x := range map[string][2][]float32{"logit": {logits, l.dPolicy}, "value": {values, l.dValue}} {
		for i, v := range x[0] {
			x[0][i] = v + 1./256
			up := loss()
			x[0][i] = v - 1./256
			want := (up - loss()) * 128
			x[0][i] = v
			if got := float64(x[1][i]); math.Abs(got-want) > 2e-3 {
				t.Errorf("by %s %d: %v, finite differences %v", what, i, got, want)
			}
		}
	}
}
