package raysys_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type guess struct {
	Weights raysys.Ref[[]float64]
	Input   float64
}

var apply = tasks.Define("apply", func(ctx context.Context, g guess) (float64, error) {
	w, err := g.Weights.Get(ctx) // it is on this node when the task starts
	if err != nil {
		return 0, err
	}
	return w[0] + w[1]*g.Input, nil
})

// An object is put once and given to many tasks. Release says that this program needs it no longer; the tasks that were
// given it before still get it.
func Example_shareOneObject() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		weights := raysys.Put(ctx, []float64{1, 2})
		guesses := apply.Map(ctx, []guess{{weights, 10}, {weights, 20}})
		weights.Release()
		fmt.Println(raysys.GetAll(ctx, guesses).Values())
		_, err := weights.Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrReleased))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [21 41] <nil>
	// true
}
