package bench

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// These rows measure work between processes: elsewhere and tasksElsewhere make sure that the work is done there.

// elsewhere refuses a grain that is in no worker's process.
func (c *cluster) elsewhere(ctx context.Context, g grains.Grain[counter]) error {
	return c.areWorkers(ctx, []raysys.Ref[int]{where.Call(ctx, g)})
}

// tasksElsewhere refuses a cluster in which a task of a batch runs in no worker's process.
func (c *cluster) tasksElsewhere(ctx context.Context) error {
	return c.areWorkers(ctx, processOf.Map(ctx, make([]int, batch)))
}

// areWorkers refuses the id of a process that is no worker's.
func (c *cluster) areWorkers(ctx context.Context, pids []raysys.Ref[int]) error {
	for _, r := range pids {
		pid, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if err := c.isWorker(pid); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) isWorker(pid int) error {
	for _, w := range c.workers {
		if w.pid() == pid {
			return nil
		}
	}
	return fmt.Errorf("the other end is process %d, which is no worker's", pid)
}
