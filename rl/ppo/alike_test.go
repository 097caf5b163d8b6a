package ppo_test

import (
	"io"
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// solvedAt is how many steps CartPole takes to a mean return of 475, in one process: the median of some seeds, the least and the most.
func solvedAt(t *testing.T, actors, steps int, seeds uint64) (median, least, most int) {
	var all []int
	for seed := range seeds {
		k := testkit.New(t, testkit.Nodes(0), testkit.Loose())
		run, err := onNodes.Train(k.Context(), rl.Plan{Steps: steps, Actors: actors, Seed: seed + 1, Every: 500, Episodes: 20, Stop: rl.MeanReturn(20, 475), Progress: io.Discard})
		if err != nil || !run.Solved {
			t.Fatalf("%d actors, seed %d: %v %v", actors, seed+1, run, err)
		}
		all = append(all, run.Steps)
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// TestAlike: many actors learn from about as many steps as one, whatever the Plan's Steps are.
func TestAlike(t *testing.T) {
	long.Only(t)
	one, least, most := solvedAt(t, 1, 300_000, 5)
	t.Logf("| 1 | %d (%d, %d) | 1 |", one, least, most)
	for actors, bound := range map[int]float64{4: 2, 16: 2.5, 64: 4.5} {
		n, least, most := solvedAt(t, actors, 300_000, 5)
		t.Logf("| %d | %d (%d, %d) | %.1f |", actors, n, least, most, float64(n)/float64(one))
		if float64(n) > bound*float64(one) {
			t.Errorf("%d actors take %d steps, one takes %d: want %v times as many at most", actors, n, one, bound)
		}
	}
	few, _, _ := solvedAt(t, 16, 60_000, 5)
	many, _, _ := solvedAt(t, 16, 1_000_000, 5)
	t.Logf("16 actors with 60,000 steps: %d, with 1,000,000: %d", few, many)
	if r := float64(many) / float64(few); r < 0.8 || r > 1.25 {
		t.Error("they depend on the Plan's Steps")
	}
}
