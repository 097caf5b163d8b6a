package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// besideEcho compares operations whose other end is a worker process with framed TCP to another process. do is the row's
// side, bare the raw one, over as many connections as the row has clients.
func besideEcho(ctx context.Context, p Plan, connections int, prepare func(driver context.Context, c *cluster) (side, error),
	bare func(e *echoes) side,
) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) (err error) {
		s, err := prepare(driver, c)
		if err != nil {
			return err
		}
		e, err := newEchoes(ctx, p, connections)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.close()) }()
		m, err = compareRates(ctx, p, s, bare(e))
		return err
	})
	m.limit = echoName
	if connections > 1 {
		m.limit += ", " + strconv.Itoa(connections) + " connections"
	}
	m.note("nodes", "the driver without CPUs of its own, one worker process")
	return m, err
}

// oneCaller is a batch over one connection.
func oneCaller(e *echoes) side { return side{batch, func() error { return e.callers[0].batch(batch) }} }

// allCallers is a batch over each of the clients' connections at the same time.
func allCallers(e *echoes) side {
	return side{clients * batch, func() error {
		return together(func(i int) error { return e.callers[i].batch(batch) })
	}}
}

func tasksAsyncAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, 1, func(driver context.Context, c *cluster) (side, error) {
		refs := make([]raysys.Ref[int], batch)
		return side{batch, func() error { return submitBatch(driver, refs) }}, c.tasksElsewhere(driver)
	}, oneCaller)
	m.latencyOf = "a batch of 1000 tasks, first Go to last result"
	return m, err
}

func tasksMapAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, 1, func(driver context.Context, c *cluster) (side, error) {
		args := make([]int, batch)
		for i := range args {
			args[i] = i
		}
		return side{batch, func() error { return collect(driver, increment.Map(driver, args)) }}, c.tasksElsewhere(driver)
	}, oneCaller)
	m.latencyOf = "a Map over 1000 and the get of its results"
	return m, err
}

func tasksClientsAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, clients, func(driver context.Context, c *cluster) (side, error) {
		ctxs, refs := drivers(ctx, c.driver)
		return side{clients * batch, func() error {
			return together(func(i int) error { return submitBatch(ctxs[i], refs[i]) })
		}}, c.tasksElsewhere(driver)
	}, allCallers)
	m.latencyOf = "a batch of 1000 tasks from each of 4 drivers"
	m.note("clients", clients)
	return m, err
}

func actorAsyncAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, 1, func(driver context.Context, c *cluster) (side, error) {
		to := []grains.Grain[counter]{counters.Get("async")}
		refs, results := make([]raysys.Ref[int], batch), make([]int, batch)
		return side{batch, func() error { return call(driver, to, refs, results) }}, c.elsewhere(driver, to[0])
	}, oneCaller)
	m.latencyOf = "1000 calls, first Call to last result"
	return m, err
}

func actorClientsAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, clients, func(driver context.Context, c *cluster) (side, error) {
		ctxs, refs := drivers(ctx, c.driver)
		var results [clients][batch]int
		to := make([]grains.Grain[counter], clients)
		for i := range to {
			to[i] = counters.Get("n-" + strconv.Itoa(i))
			if err := c.elsewhere(driver, to[i]); err != nil {
				return side{}, err
			}
		}
		return side{clients * batch, func() error {
			return together(func(i int) error { return call(ctxs[i], to, refs[i], results[i][:]) })
		}}, nil
	}, allCallers)
	m.latencyOf = "1000 calls from each of 4 drivers to 4 grains"
	m.note("clients", clients)
	return m, err
}

// putAcross counts puts that another process has seen: the task there adds up a thousand of them, by reference.
func putAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, 1, func(driver context.Context, c *cluster) (side, error) {
		refs := make([]raysys.Ref[int], batch)
		return side{batch, func() error {
			for i := range refs {
				refs[i] = raysys.Put(driver, i)
			}
			v, err := sum.Go(driver, addends{refs}).Get(driver)
			return errors.Join(err, expect(v, batch*(batch-1)/2))
		}}, c.tasksElsewhere(driver)
	}, oneCaller)
	m.latencyOf = "1000 puts, one task in another process that gets all of them, its result"
	return m, err
}

func waitAcross(ctx context.Context, p Plan) (measured, error) {
	m, err := besideEcho(ctx, p, 1, func(driver context.Context, c *cluster) (side, error) {
		refs := make([]raysys.Ref[int], batch)
		return one(func() error { return submitAndWait(driver, refs) }), c.tasksElsewhere(driver)
	}, func(e *echoes) side { return one(func() error { return e.callers[0].batch(batch) }) })
	m.latencyOf = "1000 tasks and 1000 waits"
	return m, err
}

// These rows measure work between processes: elsewhere and tasksElsewhere make sure that the work is done there.

// elsewhere refuses a grain that is in no worker's process.
func (c *cluster) elsewhere(ctx context.Context, g grains.Grain[counter]) error {
	pid, err := where.Call(ctx, g).Get(ctx)
	if err != nil {
		return err
	}
	return c.isWorker(pid)
}

// tasksElsewhere refuses a cluster in which a task of a batch runs in no worker's process.
func (c *cluster) tasksElsewhere(ctx context.Context) error {
	for _, r := range processOf.Map(ctx, make([]int, batch)) {
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
