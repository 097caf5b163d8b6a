package demo

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// client plays against the server. It belongs to one goroutine until that has ended.
type client struct {
	latencies latencies
	err       error
}

// play asks for one action after the other until the time has come, or another client says stop.
func (c *client) play(ctx context.Context, w raysys.Handle[ppo.Weights], rng *rand.Rand, until time.Time, stop *atomic.Bool) error {
	e, pool := env.NewCartPole(), servers.Get("policy")
	r := Request{Weights: w}
	for {
		e.Reset(rng, r.Obs[:])
		for over := false; !over; {
			asked := time.Now()
			action, err := act.Call(ctx, pool, r).Get(ctx)
			if err != nil {
				return err
			}
			answered := time.Now()
			c.latencies.record(answered.Sub(asked))
			if answered.After(until) || stop.Load() {
				return nil
			}
			_, done, truncated := e.Step(action, r.Obs[:])
			over = done || truncated
		}
	}
}
