package rl_test

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// fifth panics in the fifth step of an episode.
func fifth(w *ints) {
	n := 0
	w.spec.MaxSteps = 0
	w.reset = func(*ints) { n = 0 }
	w.took = func(_ *ints, s *rl.Step, _ int) {
		s.Terminated, s.Truncated = false, false
		if n++; n == 5 {
			panicFifth()
		}
	}
}

func panicFifth() { panic("in the fifth step") }

var fifthArms = rl.Define("rl-test-fifth", rl.Setup[int]{Env: madeInts(fifth), Agent: arms{}})

// TestPanicSaysWhere: the step of a panic is the one that panicked, in Check, in a run of one goroutine and in one of grains, and its stack is there.
func TestPanicSaysWhere(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	_, single := fifthArms.Train(t.Context(), rl.Plan{Steps: 100, Progress: io.Discard})
	_, nodes := fifthArms.Train(k.Context(), rl.Plan{Steps: 100, Actors: 2, Progress: io.Discard})
	for name, err := range map[string]error{"check": rl.Check(madeInts(fifth)), "single": single, "nodes": nodes} {
		e, ok := errors.AsType[*rl.EnvError](err)
		if !ok || e.Step != 5 || e.Episode != 0 || e.What != "panic: in the fifth step" {
			t.Errorf("%s: %v, want step 5", name, err)
			continue
		}
		if s := string(raysys.Stack(err)); !strings.Contains(s, "panicFifth") {
			t.Errorf("%s: the stack is %q", name, s)
		}
	}
}

// TestTrainChecks: what Check says of a Spec, and of an episode that goes on after MaxSteps, a run says as it begins, or where it happens.
func TestTrainChecks(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	for i, c := range []struct {
		says   string
		change func(w *ints)
	}{
		{"Spec has no Name", func(w *ints) { w.spec.Name = "" }},
		{"MaxSteps is -1", func(w *ints) { w.spec.MaxSteps = -1 }},
		{"Threshold is NaN and Random NaN: give 0", func(w *ints) { w.spec.Threshold, w.spec.Random = math.NaN(), math.NaN() }},
		{"actions are ints: Actions is 2, Low [0]", func(w *ints) { w.spec.Low, w.spec.High = []float32{0}, []float32{1} }},
		{"step 20: the episode goes on after step 20, which is MaxSteps", func(w *ints) { w.took = func(_ *ints, s *rl.Step, _ int) { *s = rl.Step{Obs: s.Obs} } }},
	} {
		e := checked[i]
		changed.Lock()
		changed.by = c.change
		changed.Unlock()
		for _, actors := range []int{1, 2} {
			_, err := e.Train(k.Context(), rl.Plan{Steps: 100, Actors: actors, Progress: io.Discard})
			if _, ok := errors.AsType[*rl.EnvError](err); !ok || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d actors: %v, want %s", actors, err, c.says)
			}
		}
	}
	_, err := infinite.Train(t.Context(), rl.Plan{Steps: 100, Progress: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "element 0 of actions is between -Inf and 1") {
		t.Error(err)
	}
}

var changed struct {
	sync.Mutex
	by func(w *ints)
}

func defineChecked(name string) *rl.Experiment {
	return rl.Define(name, rl.Setup[int]{Agent: arms{}, Env: func(seed uint64) rl.Env[int] {
		changed.Lock()
		defer changed.Unlock()
		return madeInts(changed.by)(seed)
	}})
}

var checked = [5]*rl.Experiment{
	defineChecked("rl-test-checked-0"), defineChecked("rl-test-checked-1"), defineChecked("rl-test-checked-2"), defineChecked("rl-test-checked-3"), defineChecked("rl-test-checked-4"),
}

var infinite = rl.Define("rl-test-infinite", rl.Setup[[]float32]{Agent: arms{}, Env: madeVectors(func(w *vectors) { w.spec.Low = []float32{float32(math.Inf(-1)), 0} })})

var huge = rl.Define("rl-test-huge", rl.Setup[int]{Agent: arms{}, Env: madeInts(func(w *ints) { w.took = func(_ *ints, s *rl.Step, _ int) { s.Reward = -2e6 } })})

// TestHugeRewards: the log says once of an experiment that its rewards are above a million, and what to do.
func TestHugeRewards(t *testing.T) {
	var text strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	for range 2 {
		if _, err := huge.Train(t.Context(), rl.Plan{Steps: 200, Progress: io.Discard}); err != nil {
			t.Fatal(err)
		}
	}
	if s := text.String(); strings.Count(s, "rewards are above 1e6") != 1 || !strings.Contains(s, "RewardScale") || !strings.Contains(s, "experiment=rl-test-huge") ||
		!strings.Contains(s, "reward=-2e+06") {
		t.Errorf("the log has %s", s)
	}
}
