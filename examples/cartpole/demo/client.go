package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

// client plays against the server. It belongs to one goroutine until that has ended.
type client struct {
	latencies latencies
	err       error
}

// play asks for one action after the other until the time has come, or another client says stop.
func (c *client) play(ctx context.Context, w raysys.Handle[rl.Weights], seed uint64, until time.Time, stop *atomic.Bool) error {
	e, pool := envs.CartPole(seed), servers.Get("policy")
	r := Request{Weights: w}
	for {
		for s := (rl.Step{Obs: e.Reset()}); !s.Done(); {
			copy(r.Obs[:], s.Obs)
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
			s = e.Step(action)
		}
	}
}
