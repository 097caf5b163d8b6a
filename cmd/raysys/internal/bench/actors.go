package bench

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

const mailboxName = "buffered channel to one goroutine that holds the state"

// rawActor is the raw limit of the actor rows with many calls in flight: a Go program without raysys would guard one
// piece of state with many callers like this.
type rawActor struct {
	inbox chan rawCall // closed by close
	done  sync.WaitGroup
}

type rawCall struct {
	arg    int
	result *int
	batch  *sync.WaitGroup
}

func newRawActor() *rawActor {
	a := &rawActor{inbox: make(chan rawCall, batch)}
	a.done.Go(func() {
		state := 0
		for c := range a.inbox {
			state += c.arg
			*c.result = state
			c.batch.Done()
		}
	})
	return a
}

func (a *rawActor) close() {
	close(a.inbox)
	a.done.Wait()
}

// callAll makes len(results) calls, spread over to, and waits for all.
func callAll(to []*rawActor, results []int) error {
	var wg sync.WaitGroup
	wg.Add(len(results))
	for i := range results {
		to[i%len(to)].inbox <- rawCall{1, &results[i], &wg}
	}
	wg.Wait()
	return rising(results, len(to))
}

// rising checks that the calls of one caller took effect in the order they were made: every grain's count went up.
func rising(results []int, grains int) error {
	for i := grains; i < len(results); i++ {
		if results[i] <= results[i-grains] {
			return errors.New("wrong result: calls of one caller to one grain changed places")
		}
	}
	return nil
}

// call makes len(refs) calls, spread over to, and gets their results.
func call(ctx context.Context, to []grains.Grain[counter], refs []raysys.Ref[int], results []int) error {
	for i := range refs {
		refs[i] = add.Call(ctx, to[i%len(to)], 1)
	}
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			return err
		}
		results[i] = v
	}
	return rising(results, len(to))
}

func actorSync(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		peer := newPingPong()
		defer peer.close()
		g, last := counters.Get("sync"), 0
		m, err = compareLatency(ctx, p, one(func() error {
			last++
			v, err := add.Call(driver, g, 1).Get(driver)
			return errors.Join(err, expect(v, last))
		}), one(peer.run))
		m.limit, m.latencyOf = pingPongName, "Call and Get of one grain call"
		return err
	})
	return m, err
}

func actorAsync(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		bare := newRawActor()
		defer bare.close()
		to := []grains.Grain[counter]{counters.Get("async")}
		refs, results := make([]raysys.Ref[int], batch), make([]int, batch)
		m, err = compareRates(ctx, p, side{batch, func() error { return call(driver, to, refs, results) }},
			side{batch, func() error { return callAll([]*rawActor{bare}, results) }})
		m.limit, m.latencyOf = mailboxName, "1000 calls, first Call to last result"
		m.note("note", limitNote)
		return err
	})
	return m, err
}

// limitNote says why the raw limit of the calls is not an actor's: actors are the business of other packages.
const limitNote = "the raw limit is a channel and one goroutine with an answer for each call; a tell to a stock protoactor actor, without an answer, made 7-9M/s on 2 cores"

func actorClients(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(_ context.Context, n *system.Node) error {
		ctxs, refs := drivers(ctx, n)
		var results [clients][batch]int
		to, bare := make([]grains.Grain[counter], clients), make([]*rawActor, clients)
		for i := range clients {
			to[i] = counters.Get("n-" + strconv.Itoa(i))
			bare[i] = newRawActor()
			defer bare[i].close()
		}
		m, err = compareRates(ctx, p, side{clients * batch, func() error {
			return together(func(i int) error { return call(ctxs[i], to, refs[i], results[i][:]) })
		}}, side{clients * batch, func() error {
			return together(func(i int) error { return callAll(bare, results[i][:]) })
		}})
		m.limit, m.latencyOf = mailboxName+", 4 callers and 4 of them", "1000 calls from each of 4 drivers to 4 grains"
		m.note("note", limitNote)
		m.note("clients", clients)
		return err
	})
	return m, err
}
