package impala_test

import (
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/impala"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	catch = rl.Define("impala-catch", rl.Setup[int]{Env: envs.Catch, Agent: impala.New(impala.Config{})})
	poles = rl.Define("impala-poles", rl.Setup[int]{Env: envs.CartPole, Agent: impala.New(impala.Config{RewardScale: 0.1, LearningRate: 0.001})})
)

// learnedAt is how many steps a run takes to the goal, in one process: the median of some seeds, the least and the most.
func learnedAt(t *testing.T, e *rl.Experiment, actors int, goal float64, seeds uint64) (median, least, most int) {
	var all []int
	for seed := range seeds {
		k := testkit.New(t, testkit.Nodes(0), testkit.Loose())
		run, err := e.Train(k.Context(), rl.Plan{Steps: 400_000, Actors: actors, Seed: seed + 1, Every: 500, Episodes: 100, Stop: rl.MeanReturn(100, goal), Progress: io.Discard})
		if err != nil || !run.Solved {
			t.Fatalf("%d actors, seed %d: %v %v", actors, seed+1, run, err)
		}
		all = append(all, run.Steps)
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// TestAlike: 64 actors learn from about as many steps as one does. How old experience is follows from how fast the machine is: TestOldExperience says what
// must hold on each.
func TestAlike(t *testing.T) {
	long.Only(t)
	one, least, most := learnedAt(t, catch, 1, 0.95, 5)
	t.Logf("| 1 | %d (%d, %d) | 1 |", one, least, most)
	for _, actors := range []int{16, 64, 512} {
		n, least, most := learnedAt(t, catch, actors, 0.95, 5)
		t.Logf("| %d | %d (%d, %d) | %.1f |", actors, n, least, most, float64(n)/float64(one))
		if bound := 3; n > bound*one {
			t.Errorf("%d actors take %d steps, one takes %d: want %d times as many at most", actors, n, one, bound)
		}
	}
}

// oldLearnedAt is how many steps of one loop the learner takes to the goal where what acts has the weights of so many updates before.
func oldLearnedAt(t *testing.T, age int, goal float64, limit int) int {
	t.Helper()
	agent := impala.New(impala.Config{})
	x, err := agent.Experience()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := agent.Policy(envs.Catch(1).Spec())
	if err != nil {
		t.Fatal(err)
	}
	loop, err := rl.NewLoop(envs.Catch, 1, policy, x)
	if err != nil {
		t.Fatal(err)
	}
	l := learner(t, impala.Config{})
	weights := slices.Repeat([][]float32{l.Weights()}, age+1) // the oldest one first
	var returns []float64
	for steps := 0; steps < limit; {
		if err := loop.Load(rl.Weights{Model: l.Model(), Params: weights[0]}); err != nil {
			t.Fatal(err)
		}
		e, err := loop.Episode()
		if err != nil {
			t.Fatal(err)
		}
		steps += e.Steps
		if returns = append(returns, e.Return); len(returns) >= 100 && mean(returns[len(returns)-100:]) >= goal {
			return steps
		}
		learned, err := l.Learn(t.Context(), rl.Batch{Steps: loop.Take()})
		if err != nil {
			t.Fatal(err)
		}
		if learned.Steps > 0 {
			weights = append(weights[1:], l.Weights())
		}
	}
	return limit
}

func mean(list []float64) (sum float64) {
	for _, x := range list {
		sum += x / float64(len(list))
	}
	return sum
}

// TestOldExperience: what is 16 updates old, twice what 64 actors may have in hand, teaches about as much as what is new.
func TestOldExperience(t *testing.T) {
	fresh, old := oldLearnedAt(t, 0, 0.95, 100_000), oldLearnedAt(t, 16, 0.95, 100_000)
	if t.Logf("%d steps, and of 16 updates before %d", fresh, old); old > 3*fresh {
		t.Errorf("old experience takes %d steps, what is new %d: want 3 times as many at most", old, fresh)
	}
}

// TestCartPole: at random a pole stands for 22 steps.
func TestCartPole(t *testing.T) {
	n, least, most := learnedAt(t, poles, 1, long.Form(60., 475), long.Form[uint64](1, 5))
	t.Logf("%d steps (%d to %d)", n, least, most)
}

// TestNodes: actors on three nodes.
func TestNodes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), testkit.Loose())
	run, err := catch.Train(k.Context(), rl.Plan{Steps: 300_000, Actors: 16, Stop: rl.MeanReturn(100, 0.5)})
	if err != nil || !run.Solved {
		t.Error(run, err)
	}
}

// TestRepeats: a run repeats bit for bit by its seed, and another seed is another run.
func TestRepeats(t *testing.T) {
	same := cmp.Options{cmpopts.IgnoreFields(rl.Run{}, "Took"), cmpopts.IgnoreFields(rl.Point{}, "Seconds"), cmpopts.EquateNaNs()}
	train := func(seed uint64) *rl.Run {
		run, err := catch.Train(t.Context(), rl.Plan{Steps: 2000, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := train(3)
	if diff := cmp.Diff(first, train(3), same); diff != "" || first.LearnerSteps != 3 {
		t.Errorf("%d updates, and then\n%s", first.LearnerSteps, diff)
	}
	if cmp.Equal(first.Weights, train(4).Weights) {
		t.Error("two seeds have the same weights")
	}
}
