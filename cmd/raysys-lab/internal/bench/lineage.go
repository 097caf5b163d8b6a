package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// The row of figure 11a of the paper (Ray, OSDI 2018): chains of tasks whose objects go with a worker that is killed, and
// are made again; the worker is replaced, and each node does as much as before.

// chainsOfLineage is how much runs, and for how long.
type chainsOfLineage struct {
	workers int
	depth   int           // tasks of a chain
	hold    time.Duration // what a task takes of its CPU
	tick    time.Duration // between two looks at how many tasks have ended
	// Ticks before the kill, from then to the start of another worker, and from when that has joined.
	before, dead, after int
}

var figure11a = chainsOfLineage{workers: 3, depth: 10, hold: 10 * time.Millisecond, tick: time.Second, before: 6, dead: 3, after: 8}

// lineageRow is in the catalogue of the tier.
func lineageRow() Row {
	return Row{
		Name: "lineage", Unit: "tasks/s", Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return lineage(ctx, p, figure11a) },
		Operation: "tasks per node and second, each with the object of 100 KiB of the one before it, after one of three workers was killed and replaced",
	}
}

// linked is the size of an object of a chain.
const linked = 100 << 10

// nextOfChain takes the object of the task before it; the first takes none.
var nextOfChain = tasks.Define2In(functions, "next-of-chain", func(ctx context.Context, hold time.Duration, last []byte) ([]byte, error) {
	if err := pause(ctx, hold); err != nil {
		return nil, err
	}
	n := uint64(0)
	if len(last) > 0 {
		n = binary.LittleEndian.Uint64(last)
	}
	b := make([]byte, linked)
	binary.LittleEndian.PutUint64(b, n+1)
	return b, nil
})

func lineage(ctx context.Context, p Plan, s chainsOfLineage) (m measured, err error) {
	r := &chainRun{chainsOfLineage: s}
	err = withCluster(ctx, p, s.workers, func(driver context.Context, c *cluster) error {
		return r.watch(ctx, driver, c)
	})
	m.rounds, m.limits = r.rates[r.replaced:], r.rates[:min(s.before, len(r.rates))]
	m.value, m.limitValue = mean(m.rounds), mean(m.limits)
	m.latency, m.latencyOf = &r.took, fmt.Sprintf("a chain of %d tasks", s.depth)
	m.limit = "the same before the worker was killed"
	m.note("each_tick", figuresOf(r.rates))
	m.note("tick_seconds", s.tick.Seconds())
	m.note("killed_at_tick", s.before)
	m.note("replaced_at_tick", r.replaced)
	m.note("chains", r.chains)
	m.note("lost", 0) // else there is an error
	m.note("nodes", "workers; what ran again for a lost object does not count")
	return m, err
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(len(list), 1))
}

// chainRun is one run of the row.
type chainRun struct {
	chainsOfLineage
	ended    atomic.Int64 // tasks
	rates    []float64    // of each tick, per node that lives
	replaced int          // the first tick after the other worker has joined

	mu     sync.Mutex // guards the rest
	took   hist
	chains int
}

// watch lets chains run, kills a worker, replaces it, and looks at each tick.
func (r *chainRun) watch(ctx, driver context.Context, c *cluster) error {
	running, stop := context.WithCancel(driver)
	defer stop()
	lanes := 2 * r.workers * runtime.GOMAXPROCS(0)
	failed := make(chan error, lanes)
	for range lanes {
		go func() { failed <- r.repeat(driver, running) }()
	}
	err := r.strike(ctx, running, c)
	stop()
	for range lanes {
		err = errors.Join(err, <-failed)
	}
	return err
}

// strike ends one of the workers meanwhile.
func (r *chainRun) strike(ctx, running context.Context, c *cluster) error {
	if err := pause(running, r.tick); err != nil { // the first tick warms up
		return err
	}
	if err := r.ticks(running, r.before, r.workers); err != nil {
		return err
	}
	victim := c.workers[0]
	if err := victim.strike(); err != nil {
		return err
	}
	if err := r.ticks(running, r.dead, r.workers-1); err != nil {
		return err
	}
	if err := c.replace(ctx, victim); err != nil {
		return err
	}
	r.replaced = len(r.rates)
	return r.ticks(running, r.after, r.workers)
}

// ticks looks so many times.
func (r *chainRun) ticks(ctx context.Context, n, nodes int) error {
	for range n {
		from, ended := time.Now(), r.ended.Load()
		if err := pause(ctx, r.tick); err != nil {
			return err
		}
		r.rates = append(r.rates, float64(r.ended.Load()-ended)/time.Since(from).Seconds()/float64(nodes))
	}
	return nil
}

// repeat runs one chain after the other until running ends.
func (r *chainRun) repeat(driver, running context.Context) error {
	for running.Err() == nil {
		from := time.Now()
		if err := r.chain(driver); err != nil {
			return err
		}
		r.mu.Lock()
		r.took.add(time.Since(from))
		r.chains++
		r.mu.Unlock()
	}
	return nil
}

// chain submits a chain, counts its tasks as they end, and looks at the last value.
func (r *chainRun) chain(ctx context.Context) error {
	refs := make([]raysys.Ref[[]byte], r.depth)
	last := raysys.Ready([]byte(nil))
	task := nextOfChain.With(raysys.Retries(100))
	for i := range refs {
		refs[i] = task.On(ctx, raysys.Ready(r.hold), last)
		last = refs[i]
	}
	for i := range refs {
		if _, _, err := raysys.Wait(ctx, refs[i:i+1], 1); err != nil {
			return err
		}
		r.ended.Add(1)
	}
	b, err := last.Get(ctx)
	if err == nil && binary.LittleEndian.Uint64(b) != uint64(r.depth) {
		err = fmt.Errorf("a chain of %d tasks counted to %d", r.depth, binary.LittleEndian.Uint64(b))
	}
	return err
}
