package system

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/placement"
)

// A driver's waits are logged after waitingFirst, and again with pauses that double up to waitingMost.
const (
	waitingLook  = time.Second
	waitingFirst = 5 * time.Second
	waitingMost  = 5 * time.Minute
)

// sayWaiting logs why the work of this driver does not begin.
func (c *cluster) sayWaiting() {
	tick := time.NewTicker(waitingLook)
	defer tick.Stop()
	var since, next time.Time // zero while nothing waits
	pause := waitingFirst
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		what, now := c.waitsFor(), time.Now()
		switch {
		case what == "":
			since, pause = time.Time{}, waitingFirst
		case since.IsZero():
			since, next = now, now.Add(waitingFirst)
		case !now.Before(next):
			c.log.Warn("work waits", zap.String("for", what), zap.Duration("since", now.Sub(since).Round(time.Second)))
			pause = min(2*pause, waitingMost)
			next = now.Add(pause)
		}
	}
}

// waitsFor names what the work of this node waits for before it can begin; "" when it waits for nothing.
func (c *cluster) waitsFor() string {
	workers, _ := c.capacity()
	if workers > 0 {
		return c.node.tasks.Stuck()
	}
	queued, calls := c.node.tasks.Load().Queued, int(c.homeless.Load())+c.reg.Waiting()
	if queued+calls == 0 {
		return ""
	}
	return fmt.Sprintf("a worker (%s, %s): no node of cluster %s runs work, start one with raysys node", count(float64(queued), "task"), count(float64(calls), "call"), c.cfg.Name)
}

// homelessPause is how often a stateless call that found no worker looks for one.
const homelessPause = 100 * time.Millisecond

// locateAnywhere finds a worker for a call of a stateless kind. While this node is connected to none the call waits, as
// tasks and calls of other grains do; its own deadline ends it.
func (c *cluster) locateAnywhere(id graindir.ID, want graindir.Wanted, done func(graindir.Placed, error)) {
	c.lookAnywhere(id, want, false, done)
}

// lookAnywhere is one look; waits says that the call is among the homeless already.
func (c *cluster) lookAnywhere(id graindir.ID, want graindir.Wanted, waits bool, done func(graindir.Placed, error)) {
	d, err := c.anywhere(id, want)
	var none *placement.NoNodeError
	if err == nil || !errors.As(err, &none) || c.reachesWorker() {
		if waits {
			c.homeless.Add(-1)
		}
		if err == nil {
			c.node.decisions.Placed(id, d)
		}
		done(graindir.Placed{Place: graindir.Place{NodeKey: core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}}}, err)
		return
	}
	if !waits {
		c.homeless.Add(1)
	}
	c.node.wheel.Set(&core.Alarm{At: c.now() + int64(homelessPause), Ring: func() {
		if c.ctx.Err() != nil {
			c.homeless.Add(-1)
			done(graindir.Placed{}, raysys.ErrClosed)
			return
		}
		c.lookAnywhere(id, want, true, done)
	}})
}

// reachesWorker reports whether a node that runs work is connected.
func (c *cluster) reachesWorker() bool {
	nodes, _ := c.nodes()
	for _, n := range nodes {
		if n.Worker && !n.Joining {
			return true
		}
	}
	return false
}
