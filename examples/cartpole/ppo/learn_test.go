package ppo_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

var seeds = flag.Int("seeds", 1, "seeds")

func envF(k string, d float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(k), 64); err == nil {
		return v
	}
	return d
}

func TestTune(t *testing.T) {
	for seed := uint64(1); seed <= uint64(*seeds); seed++ {
		c := ppo.Config{Seed: seed, LearningRate: envF("LR", 0), Entropy: envF("ENT", 0), Epochs: int(envF("EPOCHS", 0)), Minibatch: int(envF("MB", 0)), TargetKL: envF("KL", 0), Gamma: envF("GAMMA", 0), Lambda: envF("LAMBDA", 0), AnnealSteps: int(envF("ANNEAL", 0)), MaxGradNorm: envF("NORM", 0), Clip: envF("CLIP", 0), Hidden: int(envF("HID", 0))}
		e := env.NewCartPole()
		l, err := ppo.NewLearner(c, e.Spec())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var roll, upd, ev time.Duration
		solved := false
		steps, evals := 0, 0
		best := 0.0
		for it := 0; steps < 100_000; it++ {
			var trajs []ppo.Trajectory
			a := time.Now()
			for k := range int(envF("K", 8)) {
				trajs = append(trajs, ppo.Rollout(l.Weights(), e, int(envF("STEPS", 256)), ppo.Stream(seed, it, k)))
			}
			roll += time.Since(a)
			a = time.Now()
			s, err := l.Update(trajs)
			upd += time.Since(a)
			if err != nil {
				t.Fatal(err)
			}
			steps = s.TotalSteps
			if os.Getenv("V") != "" {
				t.Logf("%+v", s)
			}
			if s.MeanReturn >= envF("GATE", 200) {
				a = time.Now()
				m := stat.Mean(ppo.Evaluate(l.Weights(), e, 100, ppo.Stream(seed, it, 1000)), nil)
				ev += time.Since(a)
				evals++
				best = max(best, m)
				if os.Getenv("V") != "" {
					t.Logf("  EVAL %v", m)
				}
				if m >= 475 {
					solved = true
					if os.Getenv("ALL") == "" {
						break
					}
				}
			}
		}
		t.Logf("seed %2d solved %v steps %6d best %.1f wall %.2fs roll %.2f upd %.2f eval %.2f (%d)", seed, solved, steps, best, time.Since(begin).Seconds(), roll.Seconds(), upd.Seconds(), ev.Seconds(), evals)
	}
}
