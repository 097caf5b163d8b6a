package dqn_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
)

// states has two states, each an element of the observation, and two actions. A linear net without biases is a table of it: a row for each state.
var (
	states = rl.Spec{Name: "States", Obs: []int{2}, Actions: 2}
	values = []float32{3, 1, 5, 4, 0, 0}     // params prefer action 0 in the second state
	target = []float32{9, 9, 0.5, 100, 0, 0} // the target net says 0.5 of that, and more of the other
)

// table is a learner with these values.
func table(t *testing.T, c dqn.Config) rl.Learner {
	t.Helper()
	c.Hidden = []int{}
	l, err := dqn.New(c).Learner(context.Background(), states, 1)
	if err != nil {
		t.Fatal(err)
	}
	dqn.Set(l, values, target)
	return l
}

func learn(t *testing.T, l rl.Learner, b rl.Batch) rl.Learned {
	t.Helper()
	learned, err := l.Learn(context.Background(), b)
	if err != nil || learned.Steps != 1 {
		t.Fatal(learned, err)
	}
	return learned
}

// item goes from the first state to the second.
func item(action, reward, discount float32) rl.Trajectory {
	return rl.Trajectory{Obs: []float32{1, 0, 0, 1}, Actions: []float32{action}, Rewards: []float32{reward}, Discounts: []float32{discount}}
}

// batch has items of the given probabilities in a table of 10.
func batch(items []rl.Trajectory, probabilities ...float64) rl.Batch {
	return rl.Batch{Steps: items, Keys: make([]uint64, len(items)), Probabilities: probabilities, Size: 10}
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name                     string
		action, reward, discount float32
		err                      float64 // of the value
		loss                     float64
	}{
		{"double", 1, 0.25, 1, 1 - (0.25 + 0.5), 0.25 * 0.25 / 2},
		{"two steps", 1, 2, 0.81, 1 - (2 + 0.81*0.5), 1.405 - 0.5},
		{"the other action", 0, 2, 0.81, 3 - (2 + 0.81*0.5), 0.595 * 0.595 / 2},
		{"terminated", 1, 2, 0, 1 - 2, 0.5},
		{"far off", 1, -9, 0, 1 + 9, 9.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := table(t, dqn.Config{Prioritised: true})
			got := learn(t, l, batch([]rl.Trajectory{item(c.action, c.reward, c.discount)}, 0.1))
			if want := math.Abs(c.err) + 1e-3; !near(got.Priorities[0], want) || !near(got.Loss, c.loss) {
				t.Errorf("priority %v and loss %v, want %v and %v", got.Priorities[0], got.Loss, want, c.loss)
			}
		})
	}
}

// walk leaves the first state, and has rewards 1, 2 and 4.
type walk struct {
	step      int
	truncated bool
}

func (*walk) Spec() rl.Spec { return states }

func (w *walk) Reset() []float32 {
	w.step = 0
	return []float32{1, 0}
}

func (w *walk) Step(int) rl.Step {
	w.step++
	end := w.step == 3
	return rl.Step{Obs: []float32{0, 1}, Reward: float32(int(1) << (w.step - 1)), Terminated: end && !w.truncated, Truncated: end && w.truncated}
}

// TestNStep: from the steps of an environment to the errors. With a discount of a half and two steps the items of an episode have the rewards 1+2/2, 2+4/2
// and 4. The first has a quarter of the 0.5 to come; the others have a quarter and a half of it where the episode was cut off, and nothing where it has ended.
func TestNStep(t *testing.T) {
	agent := dqn.New(dqn.Config{NStep: 2, Gamma: 0.5})
	for _, c := range []struct {
		truncated bool
		goals     []float64
	}{
		{false, []float64{2.125, 4, 4}},
		{true, []float64{2.125, 4.125, 4.25}},
	} {
		x, err := agent.Experience()
		if err != nil {
			t.Fatal(err)
		}
		loop, err := rl.NewLoop(func(uint64) rl.Env[int] { return &walk{truncated: c.truncated} }, 1, nil, x)
		if err == nil {
			_, err = loop.Episode()
		}
		if err != nil {
			t.Fatal(err)
		}
		items := loop.Take()
		if len(items) != len(c.goals) {
			t.Fatalf("%d items, want %d", len(items), len(c.goals))
		}
		for i, s := range items {
			state := min(i, 1)
			value := float64(values[2*state+int(s.Actions[0])])
			got := learn(t, table(t, dqn.Config{Prioritised: true}), batch(items[i:i+1], 0.1)).Priorities[0]
			if want := math.Abs(value-c.goals[i]) + 1e-3; !near(got, want) {
				t.Errorf("truncated %v, item %d: priority %v, want %v", c.truncated, i, got, want)
			}
		}
	}
}

// TestImportance: of items with probabilities 0.1, 0.2 and 0.4 in a table of 10 those that are rarer count more: as 1, the root of a half, and a half.
func TestImportance(t *testing.T) {
	items := []rl.Trajectory{item(1, 2, 0), item(1, 2, 0.81), item(1, -9, 0)} // with the losses 0.5, 0.905 and 9.5
	for _, c := range []struct {
		config dqn.Config
		loss   float64
	}{
		{dqn.Config{}, (0.5 + 0.905 + 9.5) / 3},
		{dqn.Config{Prioritised: true, ImportanceExponent: 0.5}, (0.5 + math.Sqrt(0.5)*0.905 + 0.5*9.5) / 3},
		{dqn.Config{Prioritised: true, ImportanceExponent: 1}, (0.5 + 0.5*0.905 + 0.25*9.5) / 3},
	} {
		got := learn(t, table(t, c.config), batch(items, 0.1, 0.2, 0.4))
		if !near(got.Loss, c.loss) {
			t.Errorf("%+v: loss %v, want %v", c.config, got.Loss, c.loss)
		}
		if (got.Priorities != nil) != c.config.Prioritised {
			t.Errorf("%+v: priorities %v", c.config, got.Priorities)
		}
	}
	// Where all are rare, the first has the weight 1 all the same.
	if got := learn(t, table(t, dqn.Config{Prioritised: true}), batch(items[:1], 1e-6)); !near(got.Loss, 0.5) {
		t.Errorf("loss %v, want 0.5", got.Loss)
	}
}

// TestGradient compares the gradient with central differences of the loss. Targets do not depend on the weights that learn, but for the choice of the best
// action, which a small change leaves as it is.
func TestGradient(t *testing.T) {
	spec := rl.Spec{Name: "Random", Obs: []int{4}, Actions: 3}
	agent := dqn.New(dqn.Config{Hidden: []int{8, 8}, Prioritised: true, ImportanceExponent: 0.5})
	b := batchOf(spec, rand.New(rand.NewPCG(3, 0)), 32)
	fresh := func() rl.Learner {
		l, err := agent.Learner(context.Background(), spec, 2)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := fresh()
	params, other := l.Weights(), dqn.Target(l)
	for i := range params { // so that biases take part
		params[i] += 0.1 * float32(i%3-1)
	}
	loss := func(at int, h float32) float64 {
		l, moved := fresh(), slices.Clone(params)
		moved[at] += h
		dqn.Set(l, moved, other)
		return learn(t, l, b).Loss
	}
	dqn.Set(l, params, other)
	clipped := 0
	for _, p := range learn(t, l, b).Priorities {
		if p > 1.001 {
			clipped++
		}
	}
	if clipped == 0 || clipped == 32 {
		t.Fatalf("%d of 32 errors are beyond the limit of the loss: the batch shows one half of it", clipped)
	}
	const h = 1e-3
	largest := 0.0
	for i, got := range dqn.Gradient(l) {
		want := (loss(i, h) - loss(i, -h)) / (2 * h)
		if math.Abs(float64(got)-want) > 2e-3 {
			t.Errorf("the gradient by parameter %d is %v, want %v", i, got, want)
		}
		largest = max(largest, math.Abs(want))
	}
	if largest < 0.05 {
		t.Errorf("the largest difference is %v: they show nothing", largest)
	}
}

func TestTargetNet(t *testing.T) {
	l := table(t, dqn.Config{Target: 2})
	b := batch([]rl.Trajectory{item(1, 2, 0.81)}, 0.1)
	for step, want := range []bool{false, true, false, true} {
		before := slices.Clone(dqn.Target(l))
		learn(t, l, b)
		now := dqn.Target(l)
		if copied := slices.Equal(now, l.Weights()); copied != want || !copied && !slices.Equal(now, before) {
			t.Errorf("step %d: the target net is %v, the weights are %v: copied %v, want %v", step+1, now, l.Weights(), copied, want)
		}
	}
}

// TestWeightsStay: weights that were returned do not change when the learner goes on.
func TestWeightsStay(t *testing.T) {
	l := table(t, dqn.Config{})
	w := l.Weights()
	learn(t, l, batch([]rl.Trajectory{item(1, 2, 0.81)}, 0.1))
	if !slices.Equal(w, values) || slices.Equal(l.Weights(), values) {
		t.Errorf("the weights were %v, and are %v now; the learner has %v", values, w, l.Weights())
	}
}

// TestLearnAllocates: a step makes the priorities, and nothing else.
func TestLearnAllocates(t *testing.T) {
	spec := rl.Spec{Name: "Random", Obs: []int{4}, Actions: 3}
	for _, prioritised := range []bool{false, true} {
		l, err := dqn.New(dqn.Config{Prioritised: prioritised}).Learner(context.Background(), spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		b := batchOf(spec, rand.New(rand.NewPCG(3, 0)), 64)
		want := 0.0
		if prioritised {
			want = 1
		}
		if n := testing.AllocsPerRun(50, func() { _, _ = l.Learn(context.Background(), b) }); n > want {
			t.Errorf("prioritised %v: a step allocates %v times, want %v", prioritised, n, want)
		}
	}
}
