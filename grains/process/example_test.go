package process_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/system"
)

type line struct {
	X process.Tensor `json:"x"`
	Y process.Tensor `json:"y"`
}

type slope struct {
	Slope float64 `json:"slope"`
}

var (
	fitters = process.Define("fitter", process.Config{Script: `
class Fitter:
    def fit(self, x, y):
        return {"slope": sum(a * b for a, b in zip(x, y)) / sum(a * a for a in x)}
`, New: "Fitter"})
	fit = process.Method[line, slope](fitters, "fit")
)

// A method of a Python class is called as a method of a grain is. It is compiled here, and not run, where no Python may be.
func Example() {
	system.Main(func(ctx context.Context) error {
		l := line{process.Of([]float64{1, 2, 3}), process.Of([]float64{2, 4, 6})}
		s, err := fit.Call(ctx, fitters.Get("a"), l).Get(ctx)
		fmt.Println(s.Slope, err) // 2 <nil>
		return err
	})
}
