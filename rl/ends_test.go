package rl_test

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/testkit"
)

// longCalls is called at each step of an environment whose episodes have no end, with the number of steps that it has made.
var longCalls func(calls int)

var longEpisodes = rl.Define("rl-test-long", rl.Setup[int]{Agent: arms{}, Env: madeInts(func(w *ints) {
	w.spec.MaxSteps = 0
	w.took = func(w *ints, s *rl.Step, _ int) { s.Terminated = false; longCalls(w.calls) }
})})

// TestEpisodeWithoutEnd: a run ends with its ctx while an episode of an evaluation has no end.
func TestEpisodeWithoutEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	longCalls = func(calls int) {
		if calls == 1000 {
			cancel()
		}
		if calls > 2000 {
			panic("it goes on")
		}
	}
	if _, err := longEpisodes.Train(ctx, rl.Plan{Steps: 10_000, Progress: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEndlessEpisodesAreCut: an episode of an evaluation that has no bound is cut after a tenth of the steps of the plan, one of random actions after a
// twentieth, and the evaluation is over. What was asked for is cut after the steps of the plan.
func TestEndlessEpisodesAreCut(t *testing.T) {
	total := 0
	longCalls = func(int) { total++ }
	run, err := longEpisodes.Train(t.Context(), rl.Plan{Steps: 500, Progress: io.Discard, Stop: rl.MeanReturn(3, 1)})
	if err != nil || run.Solved || run.Episodes != 0 || !math.IsNaN(run.RandomReturn) || total != 25+500+50 { // of random actions, of training, of the end
		t.Errorf("%+v %v, %d steps in all", run, err, total)
	}
	total = 0
	run, err = longEpisodes.Train(t.Context(), rl.Plan{Steps: 500, Episodes: 3, Progress: io.Discard, Stop: rl.MeanReturn(3, 1)})
	if err != nil || run.Solved || run.BaselineSteps != 500 || run.EvaluationSteps != 500 || total != 3*500 {
		t.Errorf("%+v %v, %d steps in all", run, err, total)
	}
}

var (
	livesMu sync.Mutex
	lives   []context.Context // of the environments of livesArms
)

var livesArms = rl.Define("rl-test-lives", rl.Setup[int]{Agent: watchedArms, EnvOn: func(ctx context.Context, seed uint64) rl.Env[int] {
	livesMu.Lock()
	defer livesMu.Unlock()
	lives = append(lives, ctx)
	return bandit(seed)
}})

// TestEnvironmentsOfAFailedRun: a run that may go on later keeps its checkpoint, and no environments.
func TestEnvironmentsOfAFailedRun(t *testing.T) {
	lives = nil
	k := testkit.New(t, testkit.Nodes(2))
	ctx, cancel := context.WithCancel(k.Context())
	lived := func(int) {
		if living() >= 2 {
			cancel()
		}
	}
	at.Store(&lived)
	defer at.Store(nil)
	if _, err := livesArms.Train(ctx, rl.Plan{Steps: 1_000_000, Actors: 2, Name: "lives", Progress: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, "all environments have ended", func() bool { return living() == 0 })
}

func living() (n int) {
	livesMu.Lock()
	defer livesMu.Unlock()
	for _, ctx := range lives {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

// TestEnvironmentsEnd: the ctx of an environment ends with its use, before that of the run: an environment may be a process. One evaluation is at an
// end before the next begins.
func TestEnvironmentsEnd(t *testing.T) {
	for _, actors := range []int{1, 3} {
		lives = nil
		k := testkit.New(t, testkit.Nodes(min(actors-1, 2)))
		if _, err := livesArms.Train(k.Context(), rl.Plan{Steps: 1000, Actors: actors, Evaluate: true, Progress: io.Discard}); err != nil {
			t.Fatal(err)
		}
		if actors == 1 && living() > 0 {
			t.Errorf("%d of %d environments have not ended", living(), len(lives))
		}
		testkit.Eventually(t, 10*time.Second, "all environments have ended", func() bool { return living() == 0 }) // grains end after their last turn
	}
}

// TestNoRuntime: actors that are grains need a runtime.
func TestNoRuntime(t *testing.T) {
	if _, err := chooses.Train(t.Context(), rl.Plan{Steps: 100, Actors: 2, Progress: io.Discard}); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error(err)
	}
}

var easyArms = rl.Define("rl-test-easy", rl.Setup[int]{
	Env: func(seed uint64) rl.Env[int] { return envs.Bandit(seed, 1) }, Agent: arms{size: 1_000_000, limiter: replay.SampleToInsertRatio(1, 1_000_000, 40)},
})

// TestGoalAtOnce: a goal that is reached before the learner had a batch is reached, at the first point, however many steps the actors made meanwhile.
func TestGoalAtOnce(t *testing.T) {
	for _, actors := range []int{1, 2} {
		k := testkit.New(t, testkit.Nodes(min(actors-1, 2)))
		plan := rl.Plan{Steps: 1_000_000, Actors: actors, Every: 10, Evaluate: true, Stop: rl.MeanReturn(10, 1), Progress: io.Discard}
		if r, err := easyArms.Train(k.Context(), plan); err != nil || !r.Solved || r.LearnerSteps != 0 || len(r.Points) != 1 {
			t.Errorf("%d actors: %v %v", actors, r, err)
		}
	}
}
