package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// The number of the faults, and their bounds.
const (
	killsPerRound = 6 // so that the five rounds of the default make 30
	watchedGrains = 8 // of the node that goes; they lie in different shards
	goodWithin    = 90 * time.Second
	// betweenCalls keeps calls that fail at once from taking the CPU from those who repair.
	betweenCalls = time.Millisecond
)

// failover kills one worker after another and counts how long it takes to the first good call of grains it held.
func failover(ctx context.Context, p Plan) (measured, error) {
	return failovers(ctx, p, []int{2, 3, 5}, p.Rounds*killsPerRound, fault{
		name: "SIGKILL of a worker", strike: (*process).strike, deadline: 5 * time.Second,
	})
}

// failoverSilence stops one worker after another, whose silence has to outlast its lease.
func failoverSilence(ctx context.Context, p Plan) (measured, error) {
	m, err := failovers(ctx, p, []int{3}, p.Rounds, fault{
		name: "SIGSTOP of a worker", strike: (*process).stop, deadline: time.Second,
	})
	m.note("goal", "at most 2 TTL + 2 s, 22 s")
	return m, err
}

// fault is one way to end a node.
type fault struct {
	name   string
	strike func(*process) error
	// deadline of each call: a call to a node that is silent tells nothing.
	deadline time.Duration
}

func failovers(ctx context.Context, p Plan, nodes []int, faults int, f fault) (m measured, err error) {
	variants := make([]*variant, len(nodes))
	for i, n := range nodes {
		v := &variant{name: strconv.Itoa(n) + "_nodes", measured: measured{latency: &hist{}, limit: takeOverName}}
		if n < len(numerals) {
			v.name = numerals[n] + "_nodes"
		}
		variants[i] = v
		if err := withCluster(ctx, p, n, func(driver context.Context, c *cluster) error {
			return c.failovers(ctx, driver, v, faults, f)
		}); err != nil {
			return m, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	m = worst(variants, func(v *variant) float64 { return float64(v.latency.max) })
	m.latencyOf = f.name + " to the first good call of the last of " + strconv.Itoa(watchedGrains) + " grains it held"
	m.note("faults_per_variant", faults)
	m.note("nodes", "workers; the driver, which calls, is one more process")
	return m, nil
}

var numerals = [...]string{"no", "one", "two", "three", "four", "five"}

// failovers lets faults happen to the workers in turn, each of which is replaced.
func (c *cluster) failovers(ctx, driver context.Context, v *variant, faults int, f fault) error {
	kv, err := c.store("raysys/" + c.name + "/raw/")
	if err != nil {
		return err
	}
	defer kv.Close()
	keys := 0
	for i := range faults {
		victim := c.workers[0] // the oldest
		held, err := c.heldBy(driver, victim, &keys)
		if err != nil {
			return err
		}
		took, err := c.strike(driver, victim, held, f)
		if err != nil {
			return err
		}
		limit, err := takeOver(ctx, kv)
		if err != nil {
			return err
		}
		v.latency.add(took)
		v.rounds, v.limits = append(v.rounds, us(took)), append(v.limits, us(limit))
		v.value, v.limitValue = median(v.rounds), median(v.limits)
		if i == faults-1 {
			return nil
		}
		if err := c.replace(ctx, victim); err != nil {
			return err
		}
	}
	return nil
}

// heldBy activates new grains until the victim holds enough of them.
func (c *cluster) heldBy(ctx context.Context, victim *process, keys *int) ([]grains.Grain[counter], error) {
	var held []grains.Grain[counter]
	for limit := *keys + 200*len(c.workers); len(held) < watchedGrains; *keys++ {
		if *keys == limit {
			return nil, fmt.Errorf("only %d of %d new grains came to one of %d workers", len(held), 200*len(c.workers), len(c.workers))
		}
		g := counters.Get("held-" + strconv.Itoa(*keys))
		pid, err := where.Call(ctx, g).Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("activate a grain: %w", err)
		}
		if pid == victim.pid() {
			held = append(held, g)
		}
	}
	return held, nil
}

// strike lets the fault happen and returns how long it took until every one of the grains answered from another process.
func (c *cluster) strike(ctx context.Context, victim *process, held []grains.Grain[counter], f fault) (time.Duration, error) {
	start := time.Now()
	if err := f.strike(victim); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goodWithin, fmt.Errorf("no good call within %v of the %s", goodWithin, f.name))
	defer cancel()
	ask := where.With(raysys.Deadline(f.deadline))
	took, errs := make([]time.Duration, len(held)), make([]error, len(held))
	var wg sync.WaitGroup
	for i, g := range held {
		wg.Go(func() {
			for {
				pid, err := ask.Call(ctx, g).Get(ctx)
				if err == nil && pid != victim.pid() {
					took[i] = time.Since(start)
					return
				}
				if e := pause(ctx, betweenCalls); e != nil {
					errs[i] = errors.Join(e, err)
					return
				}
			}
		})
	}
	wg.Wait()
	longest := time.Duration(0)
	for _, t := range took {
		longest = max(longest, t)
	}
	return longest, errors.Join(errs...)
}

// replace starts a worker in the place of one that is gone, and waits until the cluster has settled. The worker ends with ctx:
// a driver's would end before end() lets the workers leave.
func (c *cluster) replace(ctx context.Context, gone *process) error {
	if err := gone.kill(); err != nil {
		return err
	}
	c.forget(gone)
	w, err := c.launch(ctx)
	if err != nil {
		return err
	}
	if _, err := w.ready(); err != nil {
		return err
	}
	return c.settled(ctx)
}
