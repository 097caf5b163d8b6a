package params_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains/params"
	"github.com/raysys/raysys/system"
)

var example = params.Define[float64]("example.weights", 2)

func Example() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		model := example.Get("run-7")
		if err := model.Init(ctx, []float64{1, 2, 3, 4}, params.Config{Optimizer: params.SGD(0.5)}); err != nil {
			return err
		}
		w, err := model.Pull(ctx)
		if err != nil {
			return err
		}
		v, err := model.Push(ctx, w.Version, 0, []float64{2, 2, 2, 2})
		if err != nil {
			return err
		}
		w, err = model.Pull(ctx)
		fmt.Println(w.Values, w.Version == v, v.Step)
		part, err := model.PullRange(ctx, 1, 3)
		fmt.Println(part.Values)
		return err
	})
	// Output:
	// [0 1 2 3] true 1
	// [1 2]
}
