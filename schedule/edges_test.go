package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestTaskLosesItsNodes: a task that has lost as many nodes as its Retries allow has that outcome, which ends its firing: it is not taken for a fault,
// whose next tries would find the same outcome under the name.
func TestTaskLosesItsNodes(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		for j := range 6 { // on the node that has the schedule in hand, and on others
			name := fmt.Sprint("job", j)
			must(t, schedule.Task(ctx, name, schedule.Every(24*time.Hour), away.With(raysys.Retries(0)), time.Now()))
			must(t, schedule.Run(ctx, name))
			for runs := 1; runs < 9; runs++ {
				for i := 0; i < 30 && len(written(name)) < runs; i++ {
					k.Advance(time.Second)
				}
				lines := written(name)
				if len(lines) < runs {
					break
				}
				for n := 1; n <= 3; n++ {
					if strings.HasSuffix(lines[runs-1], " "+string(k.Cluster().Name(n))) {
						k.Cluster().Kill(n)
						k.Cluster().Restart(n)
					}
				}
			}
			i, err := schedule.Get(ctx, name)
			if err != nil || len(i.Running) > 0 || i.Why != "" || !strings.Contains(i.LastError, "raysys.Retries allows more") {
				t.Errorf("after %q: %+v, %v", written(name), i, err)
			}
		}
	}, testkit.Nodes(3), testkit.Each(func(_ int, cfg *system.Config) { cfg.Resources.Custom = map[string]float64{"schedule.only": 1} }))
}

// TestManyOptions: what a schedule has beside its argument is bounded too, since its record has room for 128 KiB.
func TestManyOptions(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		opts := []raysys.Option{raysys.CPU(0)}
		for i := range 500 {
			opts = append(opts, raysys.Resource(fmt.Sprint("schedule.some", i), 1))
		}
		err := schedule.Task(k.Context(), "x", schedule.Every(time.Hour), job.With(opts...), "x")
		if !errors.Is(err, raysys.ErrTooLarge) || !strings.Contains(err.Error(), "options") {
			k.T().Errorf("got %v", err)
		}
	})
}
