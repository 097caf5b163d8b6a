package dqn_test

import (
	"errors"
	"testing"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

// TestManyActors: the limiter holds actors that are as fast as they may be, and whose weights are old, as near to the learner as it takes for all to learn
// the same, however many there are.
func TestManyActors(t *testing.T) {
	for _, actors := range long.Form([]int{16}, []int{1, 4, 16}) {
		for seed := range long.Form[uint64](1, 10) {
			mean, steps := fastActors(t, actors, seed+1)
			t.Logf("%d actors, seed %d: mean return %.2f, %d learner steps", actors, seed+1, mean, steps)
			if mean < 0.95 || steps < 1000 {
				t.Errorf("%d actors, seed %d: mean return %v after %d learner steps", actors, seed+1, mean, steps)
			}
		}
	}
}

// fastActors makes 6,000 steps. The learner makes one where no actor can go on, and publishes its weights after each tenth.
func fastActors(t *testing.T, actors int, seed uint64) (mean float64, steps int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	agent := dqn.New(dqn.Config{NStep: 5, Prioritised: true})
	x, err := agent.Experience()
	must(err)
	x.Table.Name = "t"
	table, err := replay.NewLocal[rl.Trajectory](x.Table, seed)
	must(err)
	learner, err := agent.Learner(t.Context(), envs.Catch(1).Spec(), seed)
	must(err)
	loops, waiting := make([]*rl.Loop, actors), make([][]rl.Trajectory, actors)
	publish := func() rl.Weights {
		w := rl.Weights{Model: learner.Model(), Steps: steps, Params: learner.Weights()}
		for _, l := range loops {
			must(l.Load(w))
		}
		return w
	}
	for i := range loops {
		policy, err := agent.Policy(envs.Catch(1).Spec())
		must(err)
		loops[i], err = rl.NewLoop(envs.Catch, 1000*seed+uint64(i), policy, x)
		must(err)
	}
	publish()
	for played := 0; played < 6000; {
		stuck := true
		for i, l := range loops {
			for len(waiting[i]) > 0 && table.Insert(waiting[i][0], 1) == nil {
				waiting[i] = waiting[i][1:]
			}
			if len(waiting[i]) > 0 {
				continue
			}
			stuck = false
			_, err := l.Step()
			must(err)
			waiting[i] = l.Take()
			played++
		}
		if !stuck {
			continue
		}
		b, err := table.Sample(x.Batch)
		if shut := (*replay.ShutError)(nil); errors.As(err, &shut) {
			t.Fatal("neither actors nor the learner can go on: ", shut)
		}
		must(err)
		learned, err := learner.Learn(t.Context(), b)
		must(err)
		must(table.Update(b.Keys, learned.Priorities))
		if steps += learned.Steps; steps%10 == 0 {
			publish()
		}
	}
	policy, err := agent.Policy(envs.Catch(1).Spec())
	must(err)
	must(policy.Load(publish()))
	mean, err = rl.Evaluate(envs.Catch, seed, policy, 100)
	must(err)
	return mean, steps
}
