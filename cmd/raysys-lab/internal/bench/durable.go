package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/store"
)

// The durable grains of the row, and what each has stored.
const (
	storedGrains = 100_000
	storedBytes  = 200
)

// A segment of the raw limit is about as large as what a shard writes for the 1000 callers, and so many are on their way as
// a node has shards write at a time.
const (
	rawSegment  = 8 << 10
	rawSegments = 8
)

// account is a durable grain with a State of storedBytes.
type account struct{ state grains.State[accountState] }

type accountState struct {
	Calls int
	Text  string
}

func (a *account) add(_ context.Context, d int) (int, error) {
	if a.state.Value.Text == "" {
		a.state.Value.Text = text(storedBytes - 20) // beside the number and the names of the fields
	}
	a.state.Value.Calls += d
	return a.state.Value.Calls, nil
}

// text returns n letters drawn at random, which segments hardly pack.
func text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'A' + byte(rand.IntN(26)) + byte(rand.IntN(2))*32
	}
	return string(b)
}

var (
	accounts   = grains.DefineIn[account](functions, "account", grains.Durable())
	accountAdd = grains.Method(accounts, "add", (*account).add)
)

// durableCalls measures calls of grains whose turns are committed before they are answered.
func durableCalls(ctx context.Context, p Plan) (measured, error) {
	return durableOver(ctx, p, storedGrains)
}

func durableOver(ctx context.Context, p Plan, n int) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/raw/") // goes with the cluster's own
		if err != nil {
			return err
		}
		defer kv.Close()
		began := time.Now()
		if err := storeAccounts(driver, n); err != nil {
			return fmt.Errorf("store %d grains: %w", n, err)
		}
		filled := time.Since(began)
		var variants []*variant
		var raw rawLog
		for _, callers := range []int{1000, 100, 1} {
			calls := &callersOf{ctx: driver, callers: callers, times: callsEach, grains: n, each: &hist{}}
			v := &variant{name: strconv.Itoa(callers) + "_callers", rate: true}
			if v.measured, err = compareRates(ctx, p, side{callers * callsEach, calls.run}, side{rawSegments, func() error { return raw.commit(ctx, kv) }}); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			v.latency, v.limit = calls.each, rawLogName
			variants = append(variants, v)
		}
		m = variants[0].measured
		all := map[string]any{}
		for _, v := range variants {
			all[v.name] = v.figures()
		}
		m.note("variants", all)
		m.note("stored", fmt.Sprintf("%d grains of %d bytes, in %.1f s", n, storedBytes, filled.Seconds()))
		return nil
	})
	m.limit, m.latencyOf = rawLogName, "one call of one of 1000 callers"
	m.note("nodes", "the driver, one worker process, Consul with its data on disk")
	return m, err
}

// storeAccounts calls each grain once, a thousand at a time.
func storeAccounts(ctx context.Context, n int) error {
	refs := make([]raysys.Ref[int], 0, batch)
	for i := range n {
		refs = append(refs, accountAdd.Call(ctx, accounts.Get(strconv.Itoa(i)), 1))
		if len(refs) < batch && i < n-1 {
			continue
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				return err
			}
			r.Release()
		}
		refs = refs[:0]
	}
	return nil
}

// callsEach is how often each caller calls in one operation: callers that begin together are not in step for long.
const callsEach = 4

// callersOf is callers that call one grain after another, each waiting for its reply.
type callersOf struct {
	ctx     context.Context
	callers int
	times   int // that each calls
	grains  int
	next    atomic.Int64

	mu   sync.Mutex // guards each
	each *hist
}

func (c *callersOf) run() error {
	errs := make([]error, c.callers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range c.times {
				at := int(c.next.Add(7919)) % c.grains // a prime, so that neighbours are not called one after the other
				began := time.Now()
				if _, err := accountAdd.Call(c.ctx, accounts.Get(strconv.Itoa(at)), 1).Get(c.ctx); err != nil {
					errs[i] = err
					return
				}
				took := time.Since(began)
				c.mu.Lock()
				c.each.add(took)
				c.mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

const rawLogName = "segments of 8 KiB set in Consul, 8 in flight"

// rawLog counts the segments that the raw limit has written.
type rawLog struct{ segments int }

// commit writes a segment to each of several logs at the same time.
func (l *rawLog) commit(ctx context.Context, kv store.KV) error {
	var errs [rawSegments]error
	var wg sync.WaitGroup
	value := []byte(text(rawSegment))
	for i := range rawSegments {
		ops := []store.Op{store.CheckAndSet("segment-"+strconv.Itoa(l.segments), value, 0)}
		l.segments++
		wg.Go(func() { _, errs[i] = kv.Txn(ctx, ops) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}
