package guide_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

const coinPy = `
import random

class Coin:
    """An environment of gymnasium's interface: it ends when the coin shows what was not said."""

    def reset(self, seed=None):
        if seed is not None:
            self.rng = random.Random(seed)
        return [0.0], {}

    def step(self, action):
        side = self.rng.randint(0, 1)
        return [float(side)], float(side == action), side != action, False, {}
`

var coins = process.DefineVector("guide.coin", process.Config{Script: coinPy, New: "Coin", Envs: 4})

// player has its environments in Python, and its policy in Go.
type player struct{ process.Vector }

func (p *player) OnActivate(ctx context.Context) error {
	return p.Start(ctx, process.Config{Script: coinPy, New: "Coin", Envs: 4})
}

func (p *player) Play(ctx context.Context, steps int) (sum float32, err error) {
	if _, err := p.Reset(ctx, 7); err != nil {
		return 0, err
	}
	for range steps {
		s, err := p.Step(ctx, process.Of([]int64{0, 1, 0, 1}))
		if err != nil {
			return 0, err
		}
		for _, r := range s.Rewards {
			sum += r
		}
	}
	return sum, nil
}

var (
	coinPlayers = grains.Define[player]("guide.player")
	playCoins   = grains.Method(coinPlayers, "play", (*player).Play).With(raysys.Deadline(10 * time.Minute))
)

const robotPy = `
import numpy

class Robot:
    def reset(self, seed=None, options=None):
        return {"camera": numpy.zeros((8, 8, 3), "uint8"), "joints": numpy.array([0.5, 1.0])}, {}

    def step(self, action):
        return *self.reset(), 1.0, False, False, {}
`

var robots = process.DefineVector("guide.robot", process.Config{Script: robotPy, New: "Robot", Envs: 2})

func TestVectors(t *testing.T) {
	if b, err := exec.Command(cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3"), "-c", "import json").CombinedOutput(); err != nil {
		t.Skipf("python3 does not run: %v %s", err, b)
	}
	k := testkit.New(t)
	ctx := k.Context()
	g := coins.Get("a")
	o, err := coins.Reset.Call(ctx, g, 7).Get(ctx) // float32[4 1]: environment i has seed 7+i
	if err != nil {
		t.Fatal(err)
	}
	steps, err := coins.Step.Call(ctx, g, process.Of([]int64{0, 1, 0, 1})).Get(ctx)
	if err != nil || o.String() != "float32[4 1]" || len(steps.Rewards) != 4 {
		t.Error(o, steps, err)
	}
	if sum, err := playCoins.Call(ctx, coinPlayers.Get("a"), 100).Get(ctx); sum < 50 || sum > 300 || err != nil {
		t.Error(sum, err)
	}
}

func TestVectorsOfParts(t *testing.T) {
	if b, err := exec.Command(cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3"), "-c", "import numpy").CombinedOutput(); err != nil {
		t.Skipf("python3 has no numpy: %v %s", err, b)
	}
	k := testkit.New(t)
	ctx := k.Context()
	s, err := robots.Begin.Call(ctx, robots.Get("a"), 7).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Parts {
		t.Log(p.Name, p.Tensor) // camera uint8[2 8 8 3], joints float64[2 2]
	}
	if len(s.Parts) != 2 || s.Parts[1].String() != "float64[2 2]" {
		t.Error(s.Parts)
	}
}
