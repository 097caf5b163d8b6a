package ppo

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

var (
	buttons = rl.Spec{Name: "buttons", Obs: []int{2}, Actions: 3}
	levers  = rl.Spec{Name: "levers", Obs: []int{2}, Low: []float32{-1, 2}, High: []float32{1, 6}}
)

// decided is a policy that has the given outputs, whatever it sees, and the given numbers beside them.
func decided(t testing.TB, spec rl.Spec, outputs, beside []float32) *policy {
	t.Helper()
	p, err := New(Config{Hidden: 4}).Policy(spec)
	if err != nil {
		t.Fatal(err)
	}
	own := p.(*policy)
	params := make([]float32, own.size())
	inNet, stand := own.split(params)
	copy(inNet[len(inNet)-len(outputs):], outputs)
	copy(stand, beside)
	if err := p.Load(rl.Weights{Model: own.String(), Params: params}); err != nil {
		t.Fatal(err)
	}
	return own
}

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) }

func log32(p float64) float32 { return float32(math.Log(p)) }

func TestSoftmaxDrawsByProbability(t *testing.T) {
	want := []float64{0.2, 0.5, 0.3}
	p := decided(t, buttons, []float32{log32(0.2), log32(0.5), log32(0.3)}, nil)
	rng, obs, action, extra := source(), []float32{0.3, -0.1}, make([]float32, 1), make([]float32, extras)
	const n = 100_000
	var counts [3]float64
	for range n {
		p.Act(obs, rng, action, extra)
		a := int(action[0])
		if d := math.Abs(math.Exp(float64(extra[1])) - want[a]); d > 1e-6 || extra[0] != action[0] {
			t.Fatalf("action %d came with the extras %v, want it and the logarithm of %v", a, extra, want[a])
		}
		counts[a]++
	}
	for a, c := range counts {
		// Four standard deviations of a binomial; the seed is fixed.
		if sd := math.Sqrt(want[a] * (1 - want[a]) / n); math.Abs(c/n-want[a]) > 4*sd {
			t.Errorf("action %d was taken %v of the time, want %v", a, c/n, want[a])
		}
	}
	if p.Act(obs, nil, action, nil); action[0] != 1 {
		t.Errorf("without a rng action %v, want 1", action[0])
	}
}

// TestGaussianDraws: actions have mean and deviation of the outputs in units of the bounds, and are clipped; the extras have what was not.
func TestGaussianDraws(t *testing.T) {
	mean, logStd := []float32{0.5, -0.9}, []float32{-1, -2}
	p := decided(t, levers, mean, logStd)
	rng, obs, action, extra := source(), []float32{0.3, -0.1}, make([]float32, 2), make([]float32, 2*extras)
	const n = 100_000
	var sum, squares [2]float64
	cut := 0
	for range n {
		p.Act(obs, rng, action, extra)
		drawn := extra[:2]
		for i, u := range drawn {
			low, high := levers.Low[i], levers.High[i]
			if want := min(high, max(low, low+(high-low)*(u+1)/2)); action[i] != want {
				t.Fatalf("%v was drawn, and the action is %v, want %v", u, action[i], want)
			}
			if u < -1 || u > 1 {
				cut++
			}
			sum[i] += float64(u)
			squares[i] += float64(u) * float64(u)
		}
		if want := net.GaussianLogDensity(drawn, mean, logStd); extra[2] != want || extra[3] != 0 {
			t.Fatalf("the extras are %v, want the logarithm of the density %v after what was drawn", extra, want)
		}
	}
	if cut < n/100 {
		t.Errorf("%d were out of bounds: the test shows nothing", cut)
	}
	for i := range mean {
		m, want := sum[i]/n, math.Exp(float64(logStd[i]))
		if std := math.Sqrt(squares[i]/n - m*m); math.Abs(std-want) > 0.01*want || math.Abs(m-float64(mean[i])) > 0.02*want {
			t.Errorf("element %d has mean %v and deviation %v, want %v and %v", i, m, std, mean[i], want)
		}
	}
	p.Act(obs, nil, action, nil)
	if want := []float32{0.5, 2.2}; math.Abs(float64(action[0]-want[0])) > 1e-6 || math.Abs(float64(action[1]-want[1])) > 1e-6 {
		t.Errorf("without a rng action %v, want %v", action, want)
	}
}

func TestActionsStayInBounds(t *testing.T) {
	action, extra := make([]float32, 2), make([]float32, 2*extras)
	for _, mean := range []float32{-100, -1, 1, 100} {
		p := decided(t, levers, []float32{mean, mean}, []float32{-30, -30})
		for _, rng := range []*rand.Rand{nil, source()} {
			if p.Act([]float32{0, 0}, rng, action, extra); !rl.Valid(&levers, action) {
				t.Errorf("mean %v: action %v", mean, action)
			}
		}
	}
}

// TestExtrasAgreeWithBatch: before the first step of an update the ratio is 1, since one observation and a batch mean the same.
func TestExtrasAgreeWithBatch(t *testing.T) {
	for _, spec := range []rl.Spec{buttons, levers} {
		c, m, err := agent{}.model(spec)
		if err != nil {
			t.Fatal(err)
		}
		l := newLearner(c, m, 1)
		p, _ := New(Config{}).Policy(spec)
		if err := p.Load(rl.Weights{Model: l.Model(), Params: l.Weights()}); err != nil {
			t.Fatal(err)
		}
		const n = 50
		rng, extra := source(), make([]float32, extras*m.action)
		tr := rl.Trajectory{Obs: []float32{0, 0}, Rewards: make([]float32, n), Discounts: make([]float32, n)}
		for range n {
			action := make([]float32, m.action)
			p.Act(tr.Obs[len(tr.Obs)-2:], rng, action, extra)
			tr.Actions, tr.Extras = append(tr.Actions, action...), append(tr.Extras, extra...)
			tr.Obs = append(tr.Obs, rng.Float32(), rng.Float32())
		}
		l.all.gather([]rl.Trajectory{tr}, n, &l.m, l.value.Params, &l.onValue, &l.c)
		inNet, beside := m.split(l.Weights())
		out := m.policy.Forward(inNet, l.all.obs, &l.onPolicy)
		var sum losses
		policyLoss(m.head, make([]float32, len(out)), make([]float32, m.beside), out, beside, &l.all, &c, &sum)
		if sum.kl > 1e-9*n {
			t.Errorf("%s: the policy differs from itself by %v", spec.Name, sum.kl/n)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	p := decided(t, buttons, nil, nil)
	for name, w := range map[string]rl.Weights{
		"another model": {Model: "ppo softmax 2-5-5-3 tanh", Params: make([]float32, p.size())},
		"a short list":  {Model: p.String(), Params: make([]float32, p.size()-1)},
	} {
		if err := p.Load(w); !errors.Is(err, rl.ErrModel) {
			t.Errorf("%s: %v, want ErrModel", name, err)
		}
	}
}

func TestActDoesNotAllocate(t *testing.T) {
	for _, spec := range []rl.Spec{buttons, levers} {
		p := decided(t, spec, nil, nil)
		rng, obs, action, extra := source(), []float32{0, 0}, make([]float32, p.action), make([]float32, extras*p.action)
		if n := testing.AllocsPerRun(100, func() { p.Act(obs, rng, action, extra); p.Act(obs, nil, action, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", spec.Name, n)
		}
	}
}

func BenchmarkAct(b *testing.B) {
	p, err := New(Config{}).Policy(rl.Spec{Name: "poles", Obs: []int{4}, Actions: 2})
	if err != nil {
		b.Fatal(err)
	}
	own := p.(*policy)
	if err := p.Load(rl.Weights{Model: own.String(), Params: own.model.policy.Init(source(), 0.01)}); err != nil {
		b.Fatal(err)
	}
	rng, obs, action, extra := source(), []float32{0.1, 0.2, 0.05, -0.1}, make([]float32, 1), make([]float32, extras)
	b.ReportAllocs()
	for b.Loop() {
		p.Act(obs, rng, action, extra)
	}
}
