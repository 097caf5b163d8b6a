package dqn_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batchOf makes n random items of one step.
func batchOf(spec rl.Spec, rng *rand.Rand, n int) (b rl.Batch) {
	for i := range n {
		t := rl.Trajectory{
			Actions: []float32{float32(rng.IntN(spec.Actions))}, Rewards: []float32{float32(2 * rng.NormFloat64())}, Discounts: []float32{float32(rng.IntN(2))},
		}
		for range 2 * spec.Size() {
			t.Obs = append(t.Obs, float32(rng.NormFloat64()))
		}
		b.Steps = append(b.Steps, t)
		b.Keys = append(b.Keys, uint64(i))
		b.Probabilities = append(b.Probabilities, (0.1+rng.Float64())/1000)
	}
	b.Size = 1000
	return b
}

// trained is a policy for Catch with the weights of a new learner, which count as those of a learner with some steps.
func trained(t testing.TB, c dqn.Config) rl.Policy {
	t.Helper()
	agent, spec := dqn.New(c), envs.Catch(1).Spec()
	l, err := agent.Learner(context.Background(), spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := agent.Policy(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Load(rl.Weights{Model: l.Model(), Steps: 1, Params: l.Weights()}); err != nil {
		t.Fatal(err)
	}
	return p
}
