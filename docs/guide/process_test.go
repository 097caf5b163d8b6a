package guide_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

const source = `
import array, random

class Scaler:
    def __init__(self, seed, by):
        self.by = by

    def scale(self, x):
        return {"y": array.array("f", [v * self.by for v in x.tolist()]), "largest": max(x.tolist())}

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

type numbers struct {
	X process.Tensor `json:"x"` // the argument x of the method
}

type scaled struct {
	Y       process.Tensor `json:"y"` // the key y of the dict that it returns
	Largest float64        `json:"largest"`
}

var (
	scalers = process.Define("guide.scaler", process.Config{Script: source, New: "Scaler", Args: map[string]any{"by": 2}})
	scale   = process.Method[numbers, scaled](scalers, "scale")
)

var coins = process.DefineVector("guide.coin", process.Config{Script: source, New: "Coin", Envs: 4})

// player has its environments in Python, and its policy in Go.
type player struct{ process.Vector }

func (p *player) OnActivate(ctx context.Context) error {
	return p.Start(ctx, process.Config{Script: source, New: "Coin", Envs: 4})
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

func TestProcess(t *testing.T) {
	if b, err := exec.Command("python3", "-c", "import json").CombinedOutput(); err != nil {
		t.Skipf("python3 does not run: %v %s", err, b)
	}
	k := testkit.New(t)
	ctx := k.Context()
	s, err := scale.Call(ctx, scalers.Get("a"), numbers{process.Of([]float32{1, 2, 3, 4}, 4)}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	y, err := process.Values[float32](s.Y) // [2 4 6 8]
	if err != nil || y[3] != 8 || s.Largest != 4 {
		t.Error(y, s, err)
	}
	_, err = scale.Call(ctx, scalers.Get("a"), numbers{}).Get(ctx)
	if e, ok := errors.AsType[*process.Error](err); ok { // an exception: the child lives on
		t.Log(e.Type, e.Message, e.Traceback)
	}
	if exit, ok := errors.AsType[*process.ExitError](err); ok { // it has ended: the next call starts another
		t.Log(exit.Status, exit.Stderr)
	}
	if err == nil || !strings.Contains(err.Error(), "AttributeError") {
		t.Error(err)
	}

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
