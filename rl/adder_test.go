package rl_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/raysys/raysys/rl"
)

// ramp is an environment whose observation is the number of its step, and whose reward is 2 to the power of that. An episode terminates or is
// truncated after as many steps as the next of lengths says: below 0 it is truncated.
type ramp struct {
	lengths []int
	step    int
	obs     [1]float32
}

func (r *ramp) Spec() rl.Spec { return rl.Spec{Name: "ramp", Obs: []int{1}, Actions: 10} }

func (r *ramp) Reset() []float32 {
	r.step = 0
	r.obs[0] = 0
	return r.obs[:]
}

func (r *ramp) Step(int) rl.Step {
	reward := float32(int(1) << r.step)
	r.step++
	r.obs[0] = float32(r.step)
	s := rl.Step{Obs: r.obs[:], Reward: reward}
	if n := r.lengths[0]; r.step == max(n, -n) {
		s.Terminated, s.Truncated = n > 0, n < 0
		r.lengths = append(r.lengths[1:], n)
	}
	return s
}

// counts acts by the number of the step, and has twice that as its extra.
type counts struct{}

func (counts) Load(rl.Weights) error { return nil }
func (counts) Act(obs []float32, _ *rand.Rand, action, extra []float32) {
	action[0] = obs[0]
	for i := range extra {
		extra[i] = 2 * obs[0]
	}
}

// TestAdders: items of one episode of each length, as short as x(obs) a(actions) r(rewards) d(discounts) e(extras).
func TestAdders(t *testing.T) {
	for _, tc := range []struct {
		adder   rl.Adder
		lengths []int
		want    []string
	}{
		{rl.NStep(1, 0.5), []int{2}, []string{"x[0 1] a[0] r[1] d[0.5] e[0]", "x[1 2] a[1] r[2] d[0] e[2]"}},
		{rl.NStep(1, 0.5), []int{-2}, []string{"x[0 1] a[0] r[1] d[0.5] e[0]", "x[1 2] a[1] r[2] d[0.5] e[2]"}},
		// 1 + 0.5*2 + 0.25*4, and the rest of the episode.
		{rl.NStep(3, 0.5), []int{4}, []string{
			"x[0 3] a[0] r[3] d[0.125] e[0]", "x[1 4] a[1] r[6] d[0] e[2]", "x[2 4] a[2] r[8] d[0] e[4]", "x[3 4] a[3] r[8] d[0] e[6]",
		}},
		{rl.NStep(3, 0.5), []int{-4}, []string{
			"x[0 3] a[0] r[3] d[0.125] e[0]", "x[1 4] a[1] r[6] d[0.125] e[2]", "x[2 4] a[2] r[8] d[0.25] e[4]", "x[3 4] a[3] r[8] d[0.5] e[6]",
		}},
		{rl.NStep(5, 0.5), []int{1, -2}, []string{
			"x[0 1] a[0] r[1] d[0] e[0]", "x[0 2] a[0] r[2] d[0.25] e[0]", "x[1 2] a[1] r[2] d[0.5] e[2]",
		}},
		{rl.Sequence(2, 2), []int{5}, []string{
			"x[0 1 2] a[0 1] r[1 2] d[1 1] e[0 2]", "x[2 3 4] a[2 3] r[4 8] d[1 1] e[4 6]", "x[4 5] a[4] r[16] d[0] e[8]",
		}},
		{rl.Sequence(2, 2), []int{-4}, []string{"x[0 1 2] a[0 1] r[1 2] d[1 1] e[0 2]", "x[2 3 4] a[2 3] r[4 8] d[1 1] e[4 6]"}},
		{rl.Sequence(3, 1), []int{4}, []string{"x[0 1 2 3] a[0 1 2] r[1 2 4] d[1 1 1] e[0 2 4]", "x[1 2 3 4] a[1 2 3] r[2 4 8] d[1 1 0] e[2 4 6]"}},
		{rl.Sequence(3, 2), []int{4, 1}, []string{
			"x[0 1 2 3] a[0 1 2] r[1 2 4] d[1 1 1] e[0 2 4]", "x[2 3 4] a[2 3] r[4 8] d[1 0] e[4 6]", "x[0 1] a[0] r[1] d[0] e[0]",
		}},
		{rl.Episodes(), []int{3, -1}, []string{"x[0 1 2 3] a[0 1 2] r[1 2 4] d[1 1 0] e[0 2 4]", "x[0 1] a[0] r[1] d[1] e[0]"}},
	} {
		t.Run(fmt.Sprintf("%v%v", tc.adder, tc.lengths), func(t *testing.T) {
			env := &ramp{lengths: append([]int(nil), tc.lengths...)}
			l, err := rl.NewLoop(func(uint64) rl.Env[int] { return env }, 1, counts{}, rl.Experience{Adder: tc.adder, Extra: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Load(rl.Weights{Steps: 7}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range tc.lengths {
				e, err := l.Episode()
				if steps := max(n, -n); err != nil || e.Steps != steps || e.Return != float64(int(1)<<steps-1) {
					t.Errorf("%+v %v", e, err)
				}
				for _, i := range l.Take() {
					got = append(got, fmt.Sprintf("x%v a%v r%v d%v e%v", i.Obs, i.Actions, i.Rewards, i.Discounts, i.Extras))
					if i.Acted != 7 || i.Len() != len(i.Rewards) {
						t.Errorf("%+v", i)
					}
				}
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("items %q\nwant  %q", got, tc.want)
			}
		})
	}
}

// TestActed: an item says which weights took its first action, also where it overlaps the one before.
func TestActed(t *testing.T) {
	for want, a := range map[string]rl.Adder{
		"[0 1 2 3 4 5 6]": rl.NStep(3, 1), "[0 2 4]": rl.Sequence(3, 2), "[0 3 6]": rl.Sequence(3, 3), "[0]": rl.Episodes(),
	} {
		l, err := rl.NewLoop(func(uint64) rl.Env[int] { return &ramp{lengths: []int{7}} }, 1, counts{}, rl.Experience{Adder: a})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			if err := l.Load(rl.Weights{Steps: i}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Step(); err != nil {
				t.Fatal(err)
			}
		}
		var got []int
		for _, item := range l.Take() {
			got = append(got, item.Acted)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v: %v, want %v", a, got, want)
		}
	}
}

// TestItemsStay: what Take returned is not written to by later steps.
func TestItemsStay(t *testing.T) {
	for _, a := range []rl.Adder{rl.NStep(3, 0.9), rl.Sequence(4, 2), rl.Episodes()} {
		env := &ramp{lengths: []int{7, -5, 3}}
		l, err := rl.NewLoop(func(uint64) rl.Env[int] { return env }, 1, counts{}, rl.Experience{Adder: a})
		if err != nil {
			t.Fatal(err)
		}
		var items []rl.Trajectory
		var texts []string
		for range 30 {
			if _, err := l.Step(); err != nil {
				t.Fatal(err)
			}
			for _, i := range l.Take() {
				items, texts = append(items, i), append(texts, fmt.Sprint(i))
			}
		}
		for i, item := range items {
			if fmt.Sprint(item) != texts[i] {
				t.Errorf("%v: item %d was %s and is %v", a, i, texts[i], item)
			}
		}
	}
}

// TestLoopRandom: without a policy the loop acts at random, within the bounds.
func TestLoopRandom(t *testing.T) {
	seen := map[int]int{}
	l, err := rl.NewLoop(madeInts(func(w *ints) { w.took = func(_ *ints, _ *rl.Step, a int) { seen[a]++ } }), 3, nil, rl.Experience{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := rl.NewLoop(madeVectors(func(*vectors) {}), 3, nil, rl.Experience{})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := l.Episode(); err != nil {
			t.Error(err)
		}
		if _, err := v.Episode(); err != nil { // which refuses what Valid refuses
			t.Error(err)
		}
	}
	if len(seen) != 2 || seen[0] < 20 || seen[1] < 20 {
		t.Error(seen)
	}
}
