package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
)

// groupsAtOnce is how many groups are made at the same time, and how many commits of the raw limit are on their way.
const groupsAtOnce = 64

// rawRecord is about as long as the record of a group of two bundles.
const rawRecord = 200

const rawRecordName = "records of 200 bytes set in Consul, each by a transaction of its own, 64 in flight"

// groupsAcross measures placement groups of two bundles on two workers: make one, wait until both are held, remove it.
func groupsAcross(ctx context.Context, p Plan) (m measured, err error) {
	var mu sync.Mutex // guards took
	took := &hist{}
	err = withCluster(ctx, p, 2, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/raw/") // goes with the cluster's own
		if err != nil {
			return err
		}
		defer kv.Close()
		made := func(int) error {
			began := time.Now()
			g, err := groups.Create(driver, placement.StrictSpread, []raysys.Resources{{CPU: 0.01}, {CPU: 0.01}})
			if err == nil {
				err = g.Wait(driver)
			}
			if err == nil {
				err = g.Remove(driver)
			}
			mu.Lock()
			defer mu.Unlock()
			took.add(time.Since(began))
			return err
		}
		records, value := 0, []byte(text(rawRecord))
		m, err = compareRates(ctx, p,
			side{groupsAtOnce, func() error { return atOnce(groupsAtOnce, made) }},
			side{groupsAtOnce, func() error {
				first := records
				records += groupsAtOnce
				return atOnce(groupsAtOnce, func(i int) error {
					_, err := kv.Txn(ctx, []store.Op{store.CheckAndSet("record-"+strconv.Itoa(first+i), value, 0)})
					return err
				})
			}})
		if err != nil {
			return fmt.Errorf("make groups, 64 at a time: %w", err)
		}
		return nil
	})
	m.limit, m.latency, m.latencyOf = rawRecordName, took, "one group: make, wait, remove"
	m.note("nodes", "the driver, two worker processes, Consul with its data on disk")
	return m, err
}

// atOnce calls f for each number below n at the same time.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
