package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// Transactions of the raw limit of activations: as many operations as one takes, several in flight, because the shards
// commit at the same time too, and values of about the size of a placement.
const (
	txnsInFlight = 8
	placeBytes   = 32
)

// grainActivate measures first calls to grains that have never been, whose placement the registry commits to Consul.
func grainActivate(ctx context.Context, p Plan) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/raw/") // goes with the cluster's own
		if err != nil {
			return err
		}
		defer kv.Close()
		fresh := 0
		refs := make([]raysys.Ref[int], batch)
		var txns transactions
		m, err = compareRates(ctx, p, side{batch, func() error {
			first := fresh
			fresh += batch
			return c.activate(driver, first, refs)
		}}, side{txnsInFlight * store.MaxTxnOps, func() error { return txns.commit(ctx, kv) }})
		m.note("activations", fresh)
		return err
	})
	m.limit = fmt.Sprintf("set in Consul transactions of %d operations, %d in flight", store.MaxTxnOps, txnsInFlight)
	m.latencyOf = "1000 first calls, to the last answer"
	m.note("nodes", "the driver, one worker process, Consul with its data on disk")
	return m, err
}

// activate calls as many grains as there are refs for the first time.
func (c *cluster) activate(ctx context.Context, first int, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = where.Call(ctx, counters.Get("cold-"+strconv.Itoa(first+i)))
	}
	return c.areWorkers(ctx, refs)
}

// transactions counts the keys that the raw limit has written.
type transactions struct{ keys int }

// commit writes fresh keys in several transactions at the same time.
func (t *transactions) commit(ctx context.Context, kv store.KV) error {
	var errs [txnsInFlight]error
	var wg sync.WaitGroup
	value := make([]byte, placeBytes)
	for i := range txnsInFlight {
		ops := make([]store.Op, store.MaxTxnOps)
		for j := range ops {
			ops[j] = store.Set(strconv.Itoa(t.keys), value)
			t.keys++
		}
		wg.Go(func() { _, errs[i] = kv.Txn(ctx, ops) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}
