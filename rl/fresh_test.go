package rl_test

import (
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

var (
	lengthsMu sync.Mutex
	lengths   []int // of the trajectories that the learner of freshArms has had
)

// freshArms is an agent that gets sequences of 16 steps of episodes of 100, and says what all actors may hold.
type freshArms struct {
	arms
	fresh int
}

func (a freshArms) Experience() (rl.Experience, error) {
	return rl.Experience{
		Adder: rl.Sequence(16, 16), Batch: 1, Fresh: a.fresh,
		Table: replay.Table{Sampler: replay.FIFO, MaxSize: 1000, MaxTimesSampled: 1, Limiter: replay.Queue(1000)},
	}, nil
}

func longWalk(w *ints) {
	w.spec.MaxSteps = 100
	w.took = func(w *ints, s *rl.Step, _ int) { s.Terminated, s.Truncated = false, w.calls%101 == 0 } // Reset is a call, too
}

var (
	freshOf32 = defineFresh("rl-test-fresh-32", 32)
	freshOf0  = defineFresh("rl-test-fresh-0", 0)
)

func defineFresh(name string, fresh int) *rl.Experiment {
	return rl.Define(name, rl.Setup[int]{Env: madeInts(longWalk), Agent: freshArms{arms{seen: func(b rl.Batch) {
		lengthsMu.Lock()
		defer lengthsMu.Unlock()
		for i := range b.Steps {
			lengths = append(lengths, b.Steps[i].Len())
		}
	}}, fresh}})
}

// TestFresh: with 8 actors of which all together may hold 32 steps each plays 4 a turn, and what it has played is an item then; its episode goes on. Without
// such a bound, and with one actor, sequences are as long as the adder says, but at the end of an episode.
func TestFresh(t *testing.T) {
	for _, c := range []struct {
		x      *rl.Experiment
		actors int
		most   int
	}{{freshOf32, 8, 4}, {freshOf32, 2, 16}, {freshOf0, 8, 16}} {
		lengths = nil
		k := testkit.New(t, testkit.Nodes(0))
		run, err := c.x.Train(k.Context(), rl.Plan{Steps: 4000, Actors: c.actors, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range lengths {
			sum += n
		}
		if n := slices.Max(lengths); n != c.most {
			t.Errorf("%d actors: items of up to %d steps, want %d", c.actors, n, c.most)
		}
		if run.Episodes < 4000/100-c.actors || run.Episodes > 4000/100 {
			t.Errorf("%d actors: %d episodes of 100 steps in 4000 steps", c.actors, run.Episodes)
		}
		if sum < 4000-16*c.actors || sum > 4000 {
			t.Errorf("%d actors: the items have %d steps of 4000", c.actors, sum)
		}
	}
}
