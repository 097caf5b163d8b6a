package bench

import (
	"context"
	"errors"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
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

// rawActors are as many as a row has grains.
type rawActors []*rawActor

func newRawActors(n int) rawActors {
	list := make(rawActors, n)
	for i := range list {
		list[i] = newRawActor()
	}
	return list
}

// run makes len(results) calls, spread over the actors, and waits for all.
func (to rawActors) run(results []int) error {
	var wg sync.WaitGroup
	wg.Add(len(results))
	for i := range results {
		to[i%len(to)].inbox <- rawCall{1, &results[i], &wg}
	}
	wg.Wait()
	return rising(results, len(to))
}

func (to rawActors) close() {
	for _, a := range to {
		a.close()
	}
}

// besideActors compares calls to so many grains with as many raw actors. Their limit is not an actor's: actors are the
// business of other packages.
func (o operation) besideActors(limit string, n int) func(context.Context, Plan) (measured, error) {
	measure := o.beside(limit, func() bare { return newRawActors(n) })
	return func(ctx context.Context, p Plan) (measured, error) {
		m, err := measure(ctx, p)
		m.note("note", "the raw limit is a channel and one goroutine with an answer for each call; a tell to a stock protoactor actor, without an answer, made 7-9M/s on 2 cores")
		return m, err
	}
}
