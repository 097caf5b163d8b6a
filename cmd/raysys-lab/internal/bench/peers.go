package bench

import (
	"context"
	"strconv"
	"time"
)

// idlePeers is how many others the idle node of node_rss_3_peers is connected to: two workers and the driver.
const idlePeers = 3

// nodePeers reads the resident memory of a worker in a cluster of four, once it has nothing left to do.
func nodePeers(ctx context.Context, p Plan) (measured, error) {
	m := measured{limit: "the same binary doing nothing"}
	err := withCluster(ctx, p, idlePeers, func(driver context.Context, c *cluster) error {
		for i := range p.Rounds {
			oldest := c.workers[0]
			v, err := c.idle(driver, oldest, p.Slice)
			if err != nil {
				return err
			}
			l, err := resident(ctx, p, childNothing)
			if err != nil {
				return err
			}
			m.rounds, m.limits = append(m.rounds, v), append(m.limits, l)
			if i == p.Rounds-1 {
				return nil
			}
			if err := oldest.end(); err != nil { // the next round looks at another process
				return err
			}
			if err := c.replace(ctx, oldest); err != nil {
				return err
			}
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("source", residentSource)
	m.note("nodes", "three workers and a driver")
	return m, err
}

// idle returns the largest resident memory of a worker over ten slices. The worker has led shards and lost some to the
// last worker that came; without work it sends only pings, renewals and reports.
func (c *cluster) idle(ctx context.Context, w *process, slice time.Duration) (float64, error) {
	most := 0.0
	for range 10 {
		v, err := residentBytes(strconv.Itoa(w.pid()))
		if err != nil {
			return 0, err
		}
		most = max(most, float64(v))
		if err := pause(ctx, slice); err != nil {
			return 0, err
		}
	}
	return most, nil
}

// nodeJoin measures from just before a process is started to the moment the parent has read that its node has joined a
// cluster in which there is a worker already.
func nodeJoin(ctx context.Context, p Plan) (measured, error) {
	var m measured
	err := withCluster(ctx, p, 1, func(driver context.Context, c *cluster) (err error) {
		m, err = compareStarts(driver, p, childWorker, c.name, p.Consul, "joins", "null")
		return err
	})
	m.latencyOf = "start of the process to a node that has joined, seen by the parent"
	m.note("cluster", "one worker and the driver, on a Consul that is up")
	return m, err
}
