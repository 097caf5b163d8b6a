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
		run, err := e.Train(k.Context(), rl.Plan{Steps: 400_000, Actors: actors, Seed: seed + 1, Every: 500, Stop: rl.MeanReturn(100, goal), Progress: io.Discard})
		if err != nil || !run.Solved {
			t.Fatalf("%d actors, seed %d: %v %v", actors, seed+1, run, err)
		}
		all = append(all, run.Steps)
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// TestAlike: 64 actors learn from about as many steps as one does.
func TestAlike(t *testing.T) {
	seeds := long.Form[uint64](1, 5)
	one, least, most := learnedAt(t, catch, 1, 0.95, seeds)
	t.Logf("| 1 | %d (%d, %d) | 1 |", one, least, most)
	for _, actors := range long.Form([]int{64}, []int{16, 64, 512}) {
		n, least, most := learnedAt(t, catch, actors, 0.95, seeds)
		t.Logf("| %d | %d (%d, %d) | %.1f |", actors, n, least, most, float64(n)/float64(one))
		if bound := 3; n > bound*one {
			t.Errorf("%d actors take %d steps, one takes %d: want %d times as many at most", actors, n, one, bound)
		}
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
