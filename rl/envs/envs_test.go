package envs_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func arms(seed uint64) rl.Env[int] { return envs.Bandit(seed, 0.1, 0.5, 0.9) }

var discrete = map[string]func(uint64) rl.Env[int]{"CartPole": envs.CartPole, "Catch": envs.Catch, "Bandit": arms}

func TestCheck(t *testing.T) {
	for name, make := range discrete {
		if err := rl.Check(make); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := make(1).Spec().Name; got != name {
			t.Errorf("%s has the name %s", name, got)
		}
	}
	if err := rl.Check(envs.Pendulum); err != nil {
		t.Error(err)
	}
}

// golden replays trajectories of gymnasium, which testdata/golden.py wrote, from each of their states to the next. A stretch begins at the state of the
// reference, as what has no feedback amplifies the rounding of another libm: by e^4 a second in CartPole.
func golden[A rl.Action](t *testing.T, file string, make func(uint64) rl.Env[A], action func(float64) A) {
	t.Helper()
	var runs []struct {
		Name           string
		Start, Actions []float64
		States         [][]float64
		Terminated     bool
	}
	b, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(b, &runs)
	}
	if err != nil || len(runs) != 4 {
		t.Fatal(len(runs), err)
	}
	for _, run := range runs {
		env := make(1)
		from, state, total := 0, run.Start, 0.0
		for _, want := range run.States {
			to, end := int(want[0]), len(want)-1
			envs.SetState(env, state)
			for i, a := range run.Actions[from:to] {
				s := env.Step(action(a))
				total += float64(s.Reward)
				if step := from + i + 1; s.Terminated != (run.Terminated && step == len(run.Actions)) {
					t.Fatalf("%s, step %d: terminated is %v", run.Name, step, s.Terminated)
				}
			}
			state, from = want[1:end], to
			if diff := cmp.Diff(state, envs.State(env), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Fatalf("%s, after step %d (-reference +got):\n%s", run.Name, to, diff)
			}
			if math.Abs(total-want[end]) > 1e-4 {
				t.Fatalf("%s, after step %d: return %v, want %v", run.Name, to, total, want[end])
			}
		}
		if from != len(run.Actions) {
			t.Fatalf("%s: %d steps of %d", run.Name, from, len(run.Actions))
		}
	}
}

func TestCartPoleAsGymnasium(t *testing.T) {
	golden(t, "cartpole.json", envs.CartPole, func(a float64) int { return int(a) })
}

func TestPendulumAsGymnasium(t *testing.T) {
	golden(t, "pendulum.json", envs.Pendulum, func(a float64) []float32 { return []float32{float32(a)} })
}

// play returns mean and standard deviation of the returns of episodes.
func play[A rl.Action](env rl.Env[A], episodes int, policy func(obs []float32) A) (mean, deviation float64) {
	sum, squares := 0.0, 0.0
	for range episodes {
		total := 0.0
		for s := (rl.Step{Obs: env.Reset()}); !s.Done(); {
			s = env.Step(policy(s.Obs))
			total += float64(s.Reward)
		}
		sum, squares = sum+total, squares+total*total
	}
	mean = sum / float64(episodes)
	return mean, math.Sqrt(squares/float64(episodes) - mean*mean)
}

// within fails where the mean is further from the want of a Spec than the band, which is four standard errors or more.
func within(t *testing.T, what string, mean, deviation, want, band float64) {
	t.Helper()
	t.Logf("%s: %.2f +- %.2f", what, mean, deviation)
	if math.Abs(mean-want) > band {
		t.Errorf("%s: mean return %.2f, want %v within %v", what, mean, want, band)
	}
}

// gymnasium's random agents reach 21.9 +- 11.7 in CartPole and -1213 +- 291 in Pendulum, each over 1,000 episodes.
func TestRandomBaselines(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for name, band := range map[string]float64{"CartPole": 1.5, "Catch": 0.1, "Bandit": 0.06} {
		env := discrete[name](7)
		spec := env.Spec()
		mean, deviation := play(env, 1000, func([]float32) int { return rng.IntN(spec.Actions) })
		within(t, name, mean, deviation, spec.Random, band)
	}
	env := envs.Pendulum(7)
	mean, deviation := play(env, 500, func([]float32) []float32 { return []float32{4*rng.Float32() - 2} })
	within(t, "Pendulum", mean, deviation, env.Spec().Random, 55)
}

func balance(obs []float32) int {
	if obs[2]+0.5*obs[3]+0.05*obs[0]+0.1*obs[1] > 0 {
		return 1
	}
	return 0
}

// swing pumps energy, of which there is 5 J at the top, and balances there.
func swing(obs []float32) []float32 {
	cos, sin, speed := float64(obs[0]), float64(obs[1]), float64(obs[2])
	u := -(8*math.Atan2(sin, cos) + 2*speed)
	if cos < 0.9 {
		u = math.Copysign(1, speed) * 10 * (5 - speed*speed/6 - 5*cos)
	}
	return []float32{float32(max(-2, min(2, u)))}
}

// The same controller reaches -145 +- 89 in gymnasium's Pendulum, over 100 episodes.
func TestGoodPolicies(t *testing.T) {
	mean, deviation := play(envs.CartPole(1), 100, balance)
	within(t, "CartPole", mean, deviation, 500, 0)
	mean, deviation = play(envs.Catch(1), 100, func(obs []float32) int {
		ball, paddle := 0, 0
		for i, x := range obs {
			switch {
			case x != 1:
			case i < 45:
				ball = i % 5
			default:
				paddle = i % 5
			}
		}
		return 1 + max(-1, min(1, ball-paddle))
	})
	within(t, "Catch", mean, deviation, 1, 0)
	mean, deviation = play(arms(1), 1000, func([]float32) int { return 2 })
	within(t, "Bandit", mean, deviation, 0.9, 0.04)
	mean, deviation = play(envs.Pendulum(1), 100, swing)
	within(t, "Pendulum", mean, deviation, -153, 36)
	if deviation < 60 || deviation > 120 {
		t.Errorf("Pendulum: the returns have a deviation of %.0f, want about 88", deviation)
	}
}

// reach returns the least and the most of each number of observations over many resets.
func reach[A rl.Action](env rl.Env[A]) (low, high []float64) {
	for range 2000 {
		for i, x := range env.Reset() {
			if i == len(low) {
				low, high = append(low, math.Inf(1)), append(high, math.Inf(-1))
			}
			low[i], high[i] = min(low[i], float64(x)), max(high[i], float64(x))
		}
	}
	return low, high
}

func TestStarts(t *testing.T) {
	for name, c := range map[string]struct {
		reach func() (low, high []float64)
		want  []float64
	}{
		"CartPole": {func() (low, high []float64) { return reach(envs.CartPole(1)) }, []float64{0.05, 0.05, 0.05, 0.05}},
		"Pendulum": {func() (low, high []float64) { return reach(envs.Pendulum(1)) }, []float64{1, 1, 1}},
	} {
		low, high := c.reach()
		for i, want := range c.want {
			if low[i] < -want || low[i] > -0.98*want || high[i] > want || high[i] < 0.98*want {
				t.Errorf("%s: number %d begins between %v and %v, want nearly all up to %v", name, i, low[i], high[i], want)
			}
		}
	}
	// The ball may be in each column of the first row, the paddle is in the middle of the last.
	low, high := reach(envs.Catch(1))
	wantLow, wantHigh := make([]float64, 50), make([]float64, 50)
	wantLow[47], wantHigh[47] = 1, 1
	copy(wantHigh, []float64{1, 1, 1, 1, 1})
	if !cmp.Equal(low, wantLow) || !cmp.Equal(high, wantHigh) {
		t.Errorf("Catch begins between %v and %v", low, high)
	}
}

func TestCatchStopsAtTheWalls(t *testing.T) {
	for action, want := range map[int]int{0: 45, 2: 49} {
		env := envs.Catch(1)
		env.Reset()
		for step := 1; step < 9; step++ {
			s := env.Step(action)
			paddle, ball := 47+(action-1)*min(step, 2), 0
			for i, x := range s.Obs {
				if x == 1 && i < 45 {
					ball = i / 5
				}
			}
			if s.Obs[paddle] != 1 || ball != step || s.Reward != 0 || s.Done() || step > 1 && paddle != want {
				t.Fatalf("action %d, step %d: %v", action, step, s)
			}
		}
	}
}

// A pole that falls in the very step of the limit has fallen: that there is no return to come is known.
func TestTerminatedWinsOverTruncated(t *testing.T) {
	env := envs.CartPole(4)
	for try := range 400 {
		s := rl.Step{Obs: env.Reset()}
		for step := 1; !s.Done(); step++ {
			action := balance(s.Obs)
			if step > 480+try%20 {
				action = 0
			}
			if s = env.Step(action); s.Terminated && s.Truncated {
				t.Fatalf("step %d is terminated and truncated", step)
			}
			if s.Terminated && step == 500 {
				return
			}
		}
	}
	t.Fatal("no pole fell at the limit")
}

func TestBanditRefusesArms(t *testing.T) {
	for _, arms := range [][]float64{nil, {0.5, 1.5}, {-0.1}, {math.NaN()}} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if _, ok := errors.AsType[*rl.EnvError](err); !ok {
					t.Errorf("arms %v: %v", arms, err)
				}
			}()
			envs.Bandit(1, arms...)
		}()
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	for name, make := range discrete {
		allocations(t, name, make(1), 0)
	}
	allocations(t, "Pendulum", envs.Pendulum(1), []float32{1})
}

func allocations[A rl.Action](t *testing.T, name string, env rl.Env[A], action A) {
	t.Helper()
	env.Reset()
	if n := testing.AllocsPerRun(1000, func() {
		if env.Step(action).Done() {
			env.Reset()
		}
	}); n != 0 {
		t.Errorf("%s: %v allocations a step", name, n)
	}
}

func BenchmarkStep(b *testing.B) {
	for name, make := range discrete {
		b.Run(name, func(b *testing.B) { steps(b, make(1), 0) })
	}
	b.Run("Pendulum", func(b *testing.B) { steps(b, envs.Pendulum(1), []float32{1}) })
}

func steps[A rl.Action](b *testing.B, env rl.Env[A], action A) {
	env.Reset()
	b.ReportAllocs()
	for b.Loop() {
		if env.Step(action).Done() {
			env.Reset()
		}
	}
}
