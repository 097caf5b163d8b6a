package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
)

// expect keeps a fast wrong answer from counting.
func expect(got, want int) error {
	if got != want {
		return fmt.Errorf("wrong result: got %d, want %d", got, want)
	}
	return nil
}

// collect gets the results of a batch whose arguments were 0, 1, 2...
func collect(ctx context.Context, refs []raysys.Ref[int]) error { return getAll(ctx, refs, raw(0)) }

func submitBatch(ctx context.Context, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = increment.Go(ctx, i)
	}
	return collect(ctx, refs)
}

// syncHere measures an operation that waits for its result inside the process.
func syncHere(ctx context.Context, p Plan, operation string) (m measured, err error) {
	peer := newPingPong()
	defer peer.close()
	m, err = onNode(ctx, p, compareLatency, func(driver context.Context) (value, limit side) {
		return one(waiting(driver, operation)), one(peer.run)
	})
	m.limit, m.latencyOf = pingPongName, syncOperations[operation]
	return m, err
}

func tasksSync(ctx context.Context, p Plan) (measured, error) {
	m, err := syncHere(ctx, p, syncTask)
	m.note("note", "a Get may run a task that has not started on its own goroutine; the ping-pong always changes goroutines")
	return m, err
}

func actorSync(ctx context.Context, p Plan) (measured, error) { return syncHere(ctx, p, syncCall) }

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
