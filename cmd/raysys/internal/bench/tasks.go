package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// expect keeps a fast wrong answer from counting.
func expect(got, want int) error {
	if got != want {
		return fmt.Errorf("wrong result: got %d, want %d", got, want)
	}
	return nil
}

// collect gets the results of a batch whose arguments were 0, 1, 2...
func collect(ctx context.Context, refs []raysys.Ref[int]) error {
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if err := expect(v, raw(i)); err != nil {
			return err
		}
	}
	return nil
}

func submitBatch(ctx context.Context, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = increment.Go(ctx, i)
	}
	return collect(ctx, refs)
}

// besidePool compares one batch of raysys tasks with one of the pool.
func besidePool(ctx context.Context, p Plan, of string, do func(ctx context.Context) error) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		pool := newPool()
		defer pool.close()
		results := make([]int, batch)
		m, err = compareRates(ctx, p, side{batch, func() error { return do(driver) }},
			side{batch, func() error { return pool.run(results) }})
		m.limit, m.latencyOf = poolName, of
		return err
	})
	return m, err
}

func tasksAsync(ctx context.Context, p Plan) (measured, error) {
	refs := make([]raysys.Ref[int], batch)
	return besidePool(ctx, p, "a batch of 1000 tasks, first Go to last result", func(ctx context.Context) error {
		return submitBatch(ctx, refs)
	})
}

func tasksMap(ctx context.Context, p Plan) (measured, error) {
	args := make([]int, batch)
	for i := range args {
		args[i] = i
	}
	return besidePool(ctx, p, "a Map over 1000 and the get of its results", func(ctx context.Context) error {
		return collect(ctx, increment.Map(ctx, args))
	})
}

func tasksSync(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		peer := newPingPong()
		defer peer.close()
		m, err = compareLatency(ctx, p, one(func() error {
			v, err := increment.Go(driver, 1).Get(driver)
			return errors.Join(err, expect(v, raw(1)))
		}), one(peer.run))
		m.limit, m.latencyOf = pingPongName, "Go and Get of one task"
		m.note("note", "a Get may run a task that has not started on its own goroutine; the ping-pong always changes goroutines")
		return err
	})
	return m, err
}

// together runs do for each client at the same time and waits for all.
func together(do func(client int) error) error {
	var wg sync.WaitGroup
	var errs [clients]error
	for i := range clients {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// drivers gives each client a driver and a batch of its own.
func drivers(ctx context.Context, n *system.Node) (ctxs [clients]context.Context, refs [clients][]raysys.Ref[int]) {
	for i := range clients {
		ctxs[i] = n.Context(ctx)
		refs[i] = make([]raysys.Ref[int], batch)
	}
	return ctxs, refs
}

func tasksClients(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(_ context.Context, n *system.Node) error {
		pool := newPool()
		defer pool.close()
		ctxs, refs := drivers(ctx, n)
		var results [clients][batch]int
		m, err = compareRates(ctx, p, side{clients * batch, func() error {
			return together(func(i int) error { return submitBatch(ctxs[i], refs[i]) })
		}}, side{clients * batch, func() error {
			return together(func(i int) error { return pool.run(results[i][:]) })
		}})
		m.limit, m.latencyOf = poolName+", 4 submitters", "a batch of 1000 tasks from each of 4 drivers"
		m.note("clients", clients)
		return err
	})
	return m, err
}
