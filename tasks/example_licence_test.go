package tasks_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var render = tasks.Define("render", func(ctx context.Context, frame int) (string, error) {
	return fmt.Sprintf("frame %d", frame), nil
})

// As many tasks run at the same time as the node has licences. A handle with options is made once and reused.
func Example_shareALicence() {
	licences := raysys.Resources{CPU: 2, Custom: map[string]float64{"licence": 1}}
	err := system.Run(context.Background(), system.Config{Resources: licences}, func(ctx context.Context) error {
		licensed := render.With(raysys.Resource("licence", 1))
		fmt.Println(raysys.GetAll(ctx, licensed.Map(ctx, []int{1, 2, 3})).Values())

		_, err := render.With(raysys.Resource("licence", 5)).Go(ctx, 4).Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrNoCapacity)) // no node will ever have five
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [frame 1 frame 2 frame 3] <nil>
	// true
}
