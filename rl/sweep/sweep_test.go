package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/sweep"
	"github.com/raysys/raysys/testkit"
)

// made counts the trials' rungs by their setting, where a setup was asked for it.
var made struct {
	sync.Mutex
	of map[string]int
}

func catchBy(s sweep.Setting) rl.Setup[int] {
	made.Lock()
	defer made.Unlock()
	if made.of == nil {
		made.of = map[string]int{}
	}
	made.of[s.String()]++
	return rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{
		LearningRate: s.Float("rate"), NStep: s.Int("nstep"), SamplesPerInsert: s.Float("samples"), MinSize: 200, Hidden: []int{32},
	})}
}

var tune = sweep.Define("sweep-test", sweep.Space{
	"rate": sweep.Log(1e-6, 1), "nstep": sweep.Choice(1, 2, 5), "samples": sweep.Log(0.5, 16),
}, catchBy)

// TestBeatsRandom: ASHA finds a setting with which DQN learns Catch in at most half of the steps that random search makes, in the median of the seeds. One trial at
// a time repeats by its seed.
func TestBeatsRandom(t *testing.T) {
	seeds := long.Form[uint64](1, 5)
	var ratios []float64
	var all []*sweep.Result
	for seed := range seeds {
		k := testkit.New(t, testkit.Nodes(1), testkit.Loose())
		p := sweep.Plan{Trials: 81, Steps: long.Form(9_000, 18_000), Seed: seed + 1, Stop: rl.MeanReturn(100, long.Form(0.5, 0.95)), Parallel: 1, Progress: io.Discard}
		random, err := tune.Run(k.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		p.Search = sweep.ASHA(3, long.Form(1000, 2000))
		asha, err := tune.Run(k.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if !random.Solved || !asha.Solved || !asha.Best.Solved {
			t.Fatalf("seed %d: not solved:\n%v\n%v", p.Seed, random, asha)
		}
		ratios = append(ratios, float64(asha.Steps)/float64(random.Steps))
		all = append(all, random, asha)
		t.Logf("seed %d: ASHA %d steps, random %d: %.2f\n%v", p.Seed, asha.Steps, random.Steps, ratios[len(ratios)-1], asha)
	}
	slices.Sort(ratios)
	if m := ratios[len(ratios)/2]; m > long.Form(1, 0.5) {
		t.Errorf("the median of %.2v is %.2f, want %v at most", ratios, m, long.Form(1, 0.5))
	}
	file := filepath.Join(t.TempDir(), "found.svg")
	if err := sweep.Plot(file, all...); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "sweep-test: ASHA(3, ") || !strings.Contains(string(b), "sweep-test: random") {
		t.Errorf("%v %s", err, b)
	}
}

// cutter ends a driver at its nth line of progress.
type cutter struct {
	lines, at int
	cut       func()
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.lines++; c.lines == c.at {
		c.cut()
	}
	return len(p), nil
}

// TestGoesOnByName: a sweep whose driver ended, and one of whose nodes died, goes on by its name. What its trials had made is not made again, also not by
// one whose rung was cut off, and once it is over the name begins anew.
func TestGoesOnByName(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	p := sweep.Plan{
		Name: "cut", Trials: 9, Steps: 2700, Search: sweep.ASHA(3, 300), Parallel: 2, Log: filepath.Join(t.TempDir(), "trials.jsonl"),
	}
	ctx, cut := context.WithCancel(k.Context())
	defer cut()
	p.Progress = &cutter{at: 5, cut: cut}
	if r, err := tune.Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatalf("a driver that ended: %v %v", r, err)
	}
	before := logged(t, p.Log)
	k.Cluster().Kill(1)
	k.Cluster().Restart(1)
	if _, err := tune.Run(k.Context(), sweep.Plan{Name: "cut", Trials: 9, Steps: 2700, Seed: 2}); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "another plan") {
		t.Errorf("another plan: %v", err)
	}
	made.Lock()
	made.of = map[string]int{}
	made.Unlock()
	p.Progress = io.Discard
	r, err := tune.Run(raysys.Branch(k.Context(), 1), p)
	if err != nil {
		t.Fatal(err)
	}
	rungs := func(trials []sweep.Trial) (n int) {
		for _, u := range trials {
			n += len(u.Rungs)
			if u.Diverged {
				n++
			}
		}
		return n
	}
	calls := 0
	for _, n := range made.of {
		calls += n
	}
	if had, all := rungs(before), rungs(r.Trials); had != 5 || len(r.Trials) != 9 || calls != all-had {
		t.Errorf("%d rungs were made by %d trials, %d of them before, and %d calls of the setup after\n%v", all, len(r.Trials), had, calls, r)
	}
	for _, u := range before {
		if now := r.Trials[u.Number]; !reflect.DeepEqual(u.Setting, now.Setting) || !slices.Equal(u.Rungs, now.Rungs[:len(u.Rungs)]) {
			t.Errorf("trial %+v became %+v", u, now)
		}
	}
	if after := logged(t, p.Log); len(after) != 9 || rungs(after) != rungs(r.Trials) || r.Best.Last().Steps == 0 || len(r.Curve) != rungs(r.Trials) {
		t.Errorf("the log has %+v\n%+v", after, r)
	}
	p = sweep.Plan{Name: "cut", Trials: 1, Steps: 500, Seed: 3, Progress: io.Discard}
	if r, err := tune.Run(raysys.Branch(k.Context(), 2), p); err != nil || len(r.Trials) != 1 {
		t.Errorf("a name that is free again: %v %v", r, err)
	}
}

// TestForget: a sweep that ended early is forgotten, and its name begins another one.
func TestForget(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	p := sweep.Plan{Name: "gone", Trials: 3, Steps: 300, Parallel: 1}
	ctx, cut := context.WithCancel(k.Context())
	defer cut()
	p.Progress = &cutter{at: 1, cut: cut}
	if _, err := tune.Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := tune.Forget(k.Context(), p.Name); err != nil {
		t.Fatal(err)
	}
	p.Seed, p.Progress = 5, io.Discard
	if r, err := tune.Run(raysys.Branch(k.Context(), 1), p); err != nil || r.Seed != 5 || len(r.Trials) != 3 {
		t.Errorf("%v %v", r, err)
	}
}

func logged(t *testing.T, file string) (trials []sweep.Trial) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var u sweep.Trial
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			t.Fatal(err)
		}
		trials = append(trials, u)
	}
	return trials
}

var (
	empty   = sweep.Define("sweep-test-empty", nil, catchBy)
	unknown = sweep.Define("sweep-test-unknown", sweep.Space{"rate": sweep.Log(1, 2)}, catchBy)
	down    = sweep.Define("sweep-test-down", sweep.Space{"rate": sweep.Uniform(2, 1)}, catchBy)
	wrong   = sweep.Define("sweep-test-wrong", sweep.Space{"gamma": sweep.Choice(0.9, 7)}, func(s sweep.Setting) rl.Setup[int] {
		return rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{Gamma: s.Float("gamma"), MinSize: 100})}
	})
)

// TestBadSweeps: what is wrong with a sweep is an error of Run, with what it is.
func TestBadSweeps(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(0))
	p := sweep.Plan{Trials: 20, Steps: 300, Progress: io.Discard}
	for want, s := range map[string]*sweep.Sweep{"has no Space": empty, `the space has no "nstep": it has ["rate"]`: unknown, `"rate" goes from 2 down to 1`: down} {
		if _, err := s.Run(k.Context(), p); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := wrong.Run(k.Context(), p); err == nil || !strings.Contains(err.Error(), "of gamma=7: ") || !strings.Contains(err.Error(), "Config.Gamma is 7: give 0 to 1") {
		t.Errorf("a setting that cannot be meant: %v", err)
	}
	if _, err := tune.Run(t.Context(), p); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Errorf("without a runtime: %v", err)
	}
	if err := sweep.Plot("x.svg"); err == nil {
		t.Error("no results are plotted")
	}
}

// walk counts the steps of all its kind; an episode has 20.
type walk struct{ n int }

var walked atomic.Int64

func (w *walk) Spec() rl.Spec    { return rl.Spec{Name: "walk", Obs: []int{1}, Actions: 2, MaxSteps: 20} }
func (w *walk) Reset() []float32 { w.n = 0; return []float32{0} }
func (w *walk) Step(action int) rl.Step {
	w.n++
	walked.Add(1)
	return rl.Step{Obs: []float32{1}, Reward: float32(action), Truncated: w.n == 20}
}

var walks = sweep.Define("sweep-test-walks", sweep.Space{"rate": sweep.Log(1e-6, 1)}, func(s sweep.Setting) rl.Setup[int] {
	return rl.Setup[int]{Env: func(uint64) rl.Env[int] { return &walk{} }, Agent: dqn.New(dqn.Config{LearningRate: s.Float("rate"), MinSize: 100, Hidden: []int{4}})}
})

// TestCost: a sweep plays what it says. What random actions return is measured once for a trial, and each rung once: a fifth of the steps at most, unless
// Episodes asks for more.
func TestCost(t *testing.T) {
	p := sweep.Plan{Trials: 9, Steps: 3600, Search: sweep.ASHA(3, 400), Progress: io.Discard}
	for _, p.Episodes = range []int{0, 30} {
		walked.Store(0)
		r, err := walks.Run(testkit.New(t, testkit.Nodes(0)).Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		rungs := 0
		for i := range r.Trials {
			rungs += len(r.Trials[i].Rungs)
		}
		most := r.Steps * 6 / 5
		if p.Episodes > 0 {
			most = r.Steps + 30*20*(len(r.Trials)+rungs)
		}
		if all := int(walked.Load()); all > most || all <= r.Steps || p.Episodes > 0 && all != most {
			t.Errorf("%d episodes: %d steps of training in %d rungs make %d, want %d at most", p.Episodes, r.Steps, rungs, all, most)
		}
	}
	p.Episodes = -1
	if _, err := walks.Run(t.Context(), p); !errors.Is(err, rl.ErrPlan) || !strings.Contains(err.Error(), "Plan.Episodes is -1") {
		t.Error(err)
	}
}
