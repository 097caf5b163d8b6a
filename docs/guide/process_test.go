package guide_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

const source = `
import array

class Scaler:
    def __init__(self, seed, by):
        self.by = by

    def scale(self, x):
        return {"y": array.array("f", [v * self.by for v in x.tolist()]), "largest": max(x.tolist())}
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

func TestProcess(t *testing.T) {
	if b, err := exec.Command(cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3"), "-c", "import json").CombinedOutput(); err != nil {
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
}
