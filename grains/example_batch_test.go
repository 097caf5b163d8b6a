package grains_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A Pilot looks at many observations in the time of one.
type Pilot struct{ batches int }

var errNoSight = errors.New("nothing to see")

// Act answers each observation, or says why not.
func (p *Pilot) Act(_ context.Context, observations []float64) ([]grains.Answer[string], error) {
	p.batches++
	actions := make([]grains.Answer[string], len(observations))
	for i, o := range observations {
		switch {
		case o < 0:
			actions[i].Value = "left"
		case o > 0:
			actions[i].Value = "right"
		default:
			actions[i].Err.Err = errNoSight // of this caller alone
		}
	}
	return actions, nil
}

// Batches is how many batches there were.
func (p *Pilot) Batches(context.Context) (int, error) { return p.batches, nil }

var (
	pilots  = grains.Define[Pilot]("pilot")
	batches = grains.Method0(pilots, "batches", (*Pilot).Batches)
	actOf   = grains.Batch(grains.Method(pilots, "act", (*Pilot).Act), 3, 10*time.Second)
)

// Callers have one argument each, and the method many: a batch leaves when it is full, or when its first call has waited.
func ExampleBatch() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		driver := pilots.Get("v1")
		refs := []raysys.Ref[string]{actOf.Call(ctx, driver, -0.5), actOf.Call(ctx, driver, 0), actOf.Call(ctx, driver, 2)}
		for _, o := range raysys.GetAll(ctx, refs) {
			fmt.Println(o.Value, o.Err)
		}
		n, err := batches.Call(ctx, driver).Get(ctx)
		fmt.Println(n)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// left <nil>
	//  pilot/v1.act: nothing to see
	// right <nil>
	// 1
}
