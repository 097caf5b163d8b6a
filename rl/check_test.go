package rl_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/rl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// walk is a random walk that keeps the rules, and breaks them by its hooks. Its actions push it.
type walk[A rl.Action] struct {
	spec  rl.Spec
	rng   *rand.Rand
	x     float32
	step  int
	on    bool
	calls int // of Reset and Step, in its life
	obs   [2]float32
	last  A

	reset func(w *walk[A]) // after a Reset
	took  func(w *walk[A], s *rl.Step, action A)
	allow func(w *walk[A], action A) bool // instead of the rule
}

func (w *walk[A]) Spec() rl.Spec { return w.spec }

func (w *walk[A]) Reset() []float32 {
	w.calls++
	w.x, w.step, w.on = w.rng.Float32(), 0, true
	if w.reset != nil {
		w.reset(w)
	}
	return w.look()
}

func (w *walk[A]) look() []float32 {
	w.obs = [2]float32{w.x, float32(w.step)}
	return w.obs[:]
}

func (w *walk[A]) Step(action A) rl.Step {
	w.calls++
	w.step++
	allowed := w.on && rl.Valid(&w.spec, action)
	if w.allow != nil {
		allowed = w.allow(w, action)
	}
	if !allowed {
		panic(&rl.EnvError{Name: w.spec.Name, Step: w.step, What: "no"})
	}
	if v, ok := any(action).([]float32); ok && len(v) > 0 {
		w.x += v[0]
	} else if i, ok := any(action).(int); ok {
		w.x += float32(i)
	}
	s := rl.Step{Obs: w.look(), Reward: w.x, Terminated: w.x > 8, Truncated: w.step == w.spec.MaxSteps}
	if w.took != nil {
		w.took(w, &s, action)
	}
	w.on = !s.Done()
	return s
}

type (
	ints    = walk[int]
	vectors = walk[[]float32]
)

func madeInts(change func(w *ints)) func(uint64) rl.Env[int] {
	return func(seed uint64) rl.Env[int] {
		w := &ints{spec: rl.Spec{Name: "walk", Obs: []int{2}, Actions: 2, MaxSteps: 20}, rng: rand.New(rand.NewPCG(seed, 9))}
		change(w)
		return w
	}
}

func madeVectors(change func(w *vectors)) func(uint64) rl.Env[[]float32] {
	return func(seed uint64) rl.Env[[]float32] {
		w := &vectors{spec: rl.Spec{Name: "walk", Obs: []int{2}, Low: []float32{-1, 0}, High: []float32{1, 3}, MaxSteps: 20}, rng: rand.New(rand.NewPCG(seed, 9))}
		change(w)
		return w
	}
}

func TestCheckPasses(t *testing.T) {
	for name, change := range map[string]func(w *ints){
		"random":        func(*ints) {},
		"without bound": func(w *ints) { w.spec.MaxSteps = 0 },
		"of one step":   func(w *ints) { w.spec.MaxSteps = 1 },
		"not random":    func(w *ints) { w.reset = func(w *ints) { w.x = 0 } },
		"of 10,000 steps": func(w *ints) {
			w.spec.MaxSteps, w.took = 10_000, func(w *ints, s *rl.Step, _ int) { s.Terminated = false }
		},
	} {
		if err := rl.Check(madeInts(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := rl.Check(madeVectors(func(*vectors) {})); err != nil {
		t.Error(err)
	}
}

// TestCheckFinds breaks one rule at a time, and wants that fault alone.
func TestCheckFinds(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	shared := rand.New(rand.NewPCG(1, 1))
	neighbors := float32(0)
	for _, c := range []struct {
		want   string
		change func(w *ints)
	}{
		{"Spec has no Name", func(w *ints) { w.spec.Name = "" }},
		{"has not ended after 100000 random steps", func(w *ints) { w.spec.MaxSteps, w.took = 0, func(_ *ints, s *rl.Step, _ int) { s.Terminated = false } }},
		{"MaxSteps is -1", func(w *ints) { w.spec.MaxSteps = -1 }},
		{"the shape of observations is [2 0]", func(w *ints) { w.spec.Obs = []int{2, 0} }},
		{"actions are ints: Actions is 0", func(w *ints) { w.spec.Actions = 0 }},
		{"Low [0], High [1], want at least 1 and no bounds", func(w *ints) { w.spec.Low, w.spec.High = []float32{0}, []float32{1} }},
		{"an observation has 2 numbers, and the shape [3] has 3", func(w *ints) { w.spec.Obs = []int{3} }},
		{"number 0 of an observation is NaN", func(w *ints) { w.took = func(w *ints, s *rl.Step, _ int) { w.obs[0] = nan } }},
		{"number 1 of an observation is -Inf", func(w *ints) { w.took = func(w *ints, s *rl.Step, _ int) { w.obs[1] = -inf } }},
		{"number 0 of an observation is +Inf", func(w *ints) {
			w.reset = func(w *ints) { w.x = inf }
			w.took = func(_ *ints, s *rl.Step, _ int) { s.Reward = 0 }
		}},
		{"a reward is NaN", func(w *ints) { w.took = func(_ *ints, s *rl.Step, _ int) { s.Reward = nan } }},
		{"a reward is -Inf", func(w *ints) { w.took = func(_ *ints, s *rl.Step, _ int) { s.Reward = -inf } }},
		{"Spec has changed: {Name:walk Obs:[2] Actions:2", func(w *ints) {
			w.took = func(w *ints, _ *rl.Step, _ int) {
				if w.calls == 50 {
					w.spec.Threshold = 1
				}
			}
		}},
		{"Spec has changed: {Name:walk Obs:[1 2]", func(w *ints) { // in place
			w.spec.Obs = []int{2, 1}
			w.reset = func(w *ints) { w.spec.Obs[0], w.spec.Obs[1] = 1, 2 }
		}},
		{"the episode goes on after step 20", func(w *ints) { w.took = func(_ *ints, s *rl.Step, _ int) { *s = rl.Step{Obs: s.Obs} } }},
		{"the same seed and actions lead elsewhere", func(w *ints) { w.rng = shared }},
		{"the same seed and actions lead elsewhere", func(w *ints) { // a neighbor of the process pushes it
			w.reset = func(w *ints) { neighbors = w.x }
			w.took = func(w *ints, s *rl.Step, _ int) { s.Reward = neighbors }
		}},
		{"the same seed and actions lead elsewhere", func(w *ints) {
			w.took = func(w *ints, s *rl.Step, _ int) { s.Truncated = s.Truncated || w.calls > 30 && shared.IntN(2) == 0 }
		}},
		{"the same seed and actions lead elsewhere", func(w *ints) { // truncated, or terminated in the same step
			w.took = func(w *ints, s *rl.Step, _ int) {
				if s.Done() && shared.IntN(2) == 0 {
					s.Terminated, s.Truncated = s.Truncated, s.Terminated
				}
			}
		}},
		{"episodes differ, but seeds 2 and 3 make the same ones as seed 1", func(w *ints) { w.rng = rand.New(rand.NewPCG(4, 9)) }},
		{"Step takes action -1", func(w *ints) { w.allow = func(w *ints, a int) bool { return w.on && a < 2 } }},
		{"Step takes the action after the last", func(w *ints) { w.allow = func(w *ints, a int) bool { return w.on && a >= 0 } }},
		{"Step takes a step before Reset", func(w *ints) {
			w.allow = func(w *ints, a int) bool { return (w.on || w.calls == 1) && rl.Valid(&w.spec, a) }
		}},
		{"Step takes a step after the end, where it has to panic", func(w *ints) {
			w.allow = func(w *ints, a int) bool { return (w.on || w.calls > 1) && rl.Valid(&w.spec, a) }
		}},
		{"Step panics with broken for action -1", func(w *ints) {
			w.allow = func(w *ints, a int) bool {
				if a < 0 {
					panic("broken")
				}
				return w.on && rl.Valid(&w.spec, a)
			}
		}},
		{"panic: made of nothing", func(*ints) { panic("made of nothing") }},
		{"panic: no reset", func(w *ints) {
			w.reset = func(w *ints) {
				if w.calls > 60 {
					panic("no reset")
				}
			}
		}},
		{"panic: left amid an episode", func(w *ints) {
			ended := true
			w.reset = func(*ints) {
				if !ended {
					panic("left amid an episode")
				}
				ended = false
			}
			w.took = func(_ *ints, s *rl.Step, _ int) { ended = s.Done() }
		}},
	} {
		alone(t, c.want, rl.Check(madeInts(c.change)))
	}
	alone(t, "panic: no environment was made", rl.Check(func(uint64) rl.Env[int] { return nil }))
}

func TestCheckFindsVectors(t *testing.T) {
	n := func(x float32) []float32 { return []float32{x} }
	for _, c := range []struct {
		want   string
		change func(w *vectors)
	}{
		{"actions are vectors: Actions is 2", func(w *vectors) { w.spec.Actions = 2 }},
		{"actions are vectors: Actions is 0, Low [], High []", func(w *vectors) { w.spec.Low, w.spec.High = nil, nil }},
		{"want 0 and a bound for each element", func(w *vectors) { w.spec.High = n(1) }},
		{"element 0 of actions is between 1 and 1", func(w *vectors) { w.spec.Low, w.spec.High = n(1), n(1) }},
		{"element 0 of actions is between -Inf and 1", func(w *vectors) { w.spec.Low, w.spec.High = n(float32(math.Inf(-1))), n(1) }},
		{"Step keeps the slice of an action", func(w *vectors) {
			w.took = func(w *vectors, s *rl.Step, a []float32) {
				if w.last != nil {
					s.Reward += w.last[0]
				}
				w.last = a
			}
		}},
		{"Step takes a longer action", refusing(func(v []float32) bool { return len(v) > 2 })},
		{"Step takes a shorter action", refusing(func(v []float32) bool { return len(v) < 2 })},
		{"Step takes NaN in an action", refusing(func(v []float32) bool { return len(v) == 2 && (v[0] != v[0] || v[1] != v[1]) })},
		{"Step takes an action below Low", refusing(func(v []float32) bool { return len(v) == 2 && v[1] < 0 })},
		{"Step takes an action above High", refusing(func(v []float32) bool { return len(v) == 2 && v[1] > 3 })},
	} {
		alone(t, c.want, rl.Check(madeVectors(c.change)))
	}
}

// refusing is what it should be, but for what the function is true for.
func refusing(but func(v []float32) bool) func(w *vectors) {
	return func(w *vectors) {
		w.allow = func(w *vectors, v []float32) bool { return w.on && (but(v) || rl.Valid(&w.spec, v)) }
	}
}

// alone fails where err is not one *rl.EnvError that has the text in it.
func alone(t *testing.T, want string, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 1 {
		t.Errorf("want %q alone, got:\n%v", want, err)
		return
	}
	if fault, ok := errors.AsType[*rl.EnvError](err); !ok || !strings.Contains(fault.What, want) {
		t.Errorf("want %q, got: %v", want, err)
	}
}

func TestCheckFindsAll(t *testing.T) {
	err := rl.Check(madeInts(func(w *ints) {
		w.allow = func(*ints, int) bool { return true }
		w.took = func(_ *ints, s *rl.Step, _ int) { s.Reward = float32(math.NaN()) }
	}))
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != 5 {
		t.Errorf("%d faults, want 5: %v", n, err)
	}
}

func TestCheckSaysWhere(t *testing.T) {
	err := rl.Check(madeInts(func(w *ints) {
		w.took = func(w *ints, s *rl.Step, _ int) {
			if w.spec.MaxSteps = 20; w.calls > 40 && w.step == 7 {
				s.Reward = float32(math.NaN())
			}
		}
	}))
	fault, ok := errors.AsType[*rl.EnvError](err)
	if !ok || fault.Name != "walk" || fault.Seed != 1 || fault.Episode < 2 || fault.Step != 7 {
		t.Error(err)
	}
}
