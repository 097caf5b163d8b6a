package demo_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/demo"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// short are options of a run to a lower goal: 100 takes some 10,000 steps instead of 20,000 and more.
func short() demo.Options {
	o := demo.Defaults()
	o.Goal = 100
	return o
}

// The kit is strict, so every value passes the codec, and one that changes after it was handed over fails the test.
// Two nodes with one seed, on more and on fewer CPUs: the order in which rollouts end must not matter.
func TestLearnRepeats(t *testing.T) {
	run := func(cpus float64) (stats []demo.Stats, l demo.Learned) {
		k := testkit.New(t, testkit.CPU(cpus))
		l, err := demo.Learn(k.Context(), short(), func(s demo.Stats) { stats = append(stats, s) })
		if err != nil {
			t.Fatal(err)
		}
		return stats, l
	}
	stats, l := run(1)
	if l.MeanReturn < 100 || l.RandomReturn < 10 || l.RandomReturn > 40 {
		t.Errorf("mean return %v beside %v of a random policy", l.MeanReturn, l.RandomReturn)
	}
	if last := stats[len(stats)-1]; l.Steps != last.TotalSteps || last.MeanReturn < 100 || stats[0].MeanReturn > 50 {
		t.Errorf("%d steps, first update %+v, last %+v", l.Steps, stats[0], last)
	}
	again, m := run(4)
	if d := cmp.Diff(stats, again); d != "" || l.MeanReturn != m.MeanReturn || l.RandomReturn != m.RandomReturn {
		t.Errorf("one seed, two runs: %v and %v\n%s", l, m, d)
	}
}

func TestNotLearned(t *testing.T) {
	k := testkit.New(t)
	for _, c := range []struct {
		goal  float64
		steps int
	}{
		{475, 3000}, // ends within the second iteration
		{5, 100},    // the goal is reached at once, but beyond the budget
	} {
		o := demo.Defaults()
		o.Goal, o.Steps = c.goal, c.steps
		updates := 0
		_, err := demo.Learn(k.Context(), o, func(demo.Stats) { updates++ })
		if !errors.Is(err, demo.ErrNotLearned) || !strings.Contains(err.Error(), "raise steps or try another seed") {
			t.Errorf("goal %v within %d: %v", c.goal, c.steps, err)
		}
		if want := 1 + c.steps/2049; updates != want {
			t.Errorf("goal %v within %d: %d updates, want %d", c.goal, c.steps, updates, want)
		}
	}
}

func TestLearnNeedsARuntime(t *testing.T) {
	if _, err := demo.Learn(t.Context(), demo.Defaults(), nil); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error(err)
	}
}

// handed counts where values of the big types change hands.
type handed struct {
	mu sync.Mutex // guards at
	at map[string]int
}

// HandOver implements raysys.Inspector.
func (h *handed) HandOver(place string, at any) error {
	what := ""
	switch at.(type) {
	case *rl.Weights:
		what = "weights "
	case *demo.Played, *[]demo.Played:
		what = "trajectory "
	}
	if what != "" {
		way, _, _ := strings.Cut(place, " ")
		if strings.HasSuffix(place, "handed to Get") {
			way = "got"
		}
		h.mu.Lock()
		h.at[what+way]++
		h.mu.Unlock()
	}
	return nil
}

// Lend implements raysys.Inspector.
func (h *handed) Lend(place string, at any) (func(), error) { return func() {}, nil }

// Fail implements raysys.Inspector.
func (h *handed) Fail(err error) error { return err }

// Weights and trajectories travel by reference: neither is ever an argument, and none is fetched but by the task or
// grain that works with it.
func TestTravelByReference(t *testing.T) {
	h := &handed{at: map[string]int{}}
	cfg := system.Config{}
	*standins.Inspector(&cfg) = h
	node, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := demo.Defaults()
	o.Goal = 5 // reached by the first update
	l, err := demo.Learn(node.Context(t.Context()), o, nil)
	if err := errors.Join(err, node.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"weights result":    2,      // of Start and of Weights
		"weights got":       8 + 10, // by rollouts and evaluations
		"trajectory result": 8,
		"trajectory got":    8, // by the learner
	}
	if d := cmp.Diff(want, h.at); d != "" {
		t.Errorf("values handed over (-want +got):\n%s", d)
	}
	if l.Weights.IsZero() {
		t.Error("no reference to the weights")
	}
}
