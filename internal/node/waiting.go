package node

import (
	"fmt"
	"time"

	"go.uber.org/zap"
)

// A driver's waits are logged after waitingFirst, and again with pauses that double up to waitingMost.
const (
	waitingLook  = time.Second
	waitingFirst = 5 * time.Second
	waitingMost  = 5 * time.Minute
)

// sayWaiting logs why the work of a driver does not begin.
func sayWaiting(c *Cluster) {
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
		what, now := waitsFor(c), time.Now()
		switch {
		case what == "":
			since, pause = time.Time{}, waitingFirst
		case since.IsZero():
			since, next = now, now.Add(waitingFirst)
		case !now.Before(next):
			c.Log.Warn("work waits", zap.String("for", what), zap.Duration("since", now.Sub(since).Round(time.Second)))
			pause = min(2*pause, waitingMost)
			next = now.Add(pause)
		}
	}
}

// waitsFor names what the work of a node waits for before it can begin; "" when it waits for nothing.
func waitsFor(c *Cluster) string {
	workers, _ := c.capacity()
	if workers > 0 {
		return c.tasks.Stuck()
	}
	queued, calls := c.tasks.Load().Queued, int(c.Placer.Homeless.Load())+c.Registry.Waiting()
	if queued+calls == 0 {
		return ""
	}
	return fmt.Sprintf("a worker (%s, %s): no node of cluster %s runs work, start one with raysys node", count(float64(queued), "task"), count(float64(calls), "call"), c.cfg.Cluster)
}
