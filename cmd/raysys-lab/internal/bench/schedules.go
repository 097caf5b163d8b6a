package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/tasks"
)

const (
	// dueSchedules are due at the same time.
	dueSchedules = 10_000
	// setAtOnce is how many are being set at a time.
	setAtOnce = 200
	// firingGrace is how long it takes until the last firing has run, at most.
	firingGrace = 2 * time.Minute
)

// firings counts, in the worker's process, the firings that have run, those whose outcome is not stored yet too.
var firings atomic.Int64

var firingsRun = tasks.DefineIn(functions, "firings", func(_ context.Context, _ int) (int, error) { return int(firings.Load()), nil })

func (a *account) fire(ctx context.Context, d int) (int, error) {
	firings.Add(1)
	return a.add(ctx, d)
}

func (c *counter) fire(ctx context.Context, d int) (int, error) {
	firings.Add(1)
	return c.add(ctx, d)
}

var (
	accountFire = grains.Method(accounts, "fire", (*account).fire)
	counterFire = grains.Method(counters, "fire", (*counter).fire)
)

// schedulesDue compares firings with calls by 1000 callers to the same grains. What schedules commit themselves is counted with grains that
// commit nothing.
func schedulesDue(ctx context.Context, p Plan) (measured, error) {
	return schedulesOver(ctx, p, dueSchedules)
}

func schedulesOver(ctx context.Context, p Plan, n int) (m measured, err error) {
	m.latency = &hist{}
	var callCommits, allCommits, ownCommits []float64
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/")
		if err != nil {
			return err
		}
		defer kv.Close()
		if err := storeAccounts(driver, n); err != nil {
			return fmt.Errorf("store %d grains: %w", n, err)
		}
		if err := c.activate(driver, 0, make([]raysys.Ref[int], n)); err != nil {
			return err
		}
		s := &dueTogether{driver: driver, kv: kv, n: n}
		durable := func(name string, w schedule.When, key string) error {
			return schedule.Call(driver, name, w, accountFire, accounts.Get(key), 1)
		}
		plain := func(name string, w schedule.When, key string) error {
			return schedule.Call(driver, name, w, counterFire, counters.Get("cold-"+key), 1)
		}
		each := &hist{}
		for range p.Rounds {
			took, commits, err := s.fire(durable)
			if err != nil {
				return fmt.Errorf("durable grains: %w", err)
			}
			m.latency.add(took)
			m.rounds = append(m.rounds, float64(n)/took.Seconds())
			allCommits = append(allCommits, float64(commits)/float64(n))
			if _, commits, err = s.fire(plain); err != nil {
				return fmt.Errorf("grains without State: %w", err)
			}
			ownCommits = append(ownCommits, float64(commits)/float64(n))

			before, err := s.commits()
			if err != nil {
				return err
			}
			calls := &callersOf{ctx: driver, callers: min(batch, n), times: max(n/batch, 1), grains: n, each: each}
			began := time.Now()
			if err := calls.run(); err != nil {
				return err
			}
			made := float64(calls.callers * calls.times)
			m.limits = append(m.limits, made/time.Since(began).Seconds())
			if commits, err = s.commits(); err != nil {
				return err
			}
			callCommits = append(callCommits, float64(commits-before)/made)
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.limit = "calls to the same grains, 1000 callers"
	m.latencyOf = "the due time to the last firing stored"
	m.note("schedules", n)
	m.note("commits_per_firing", figuresOf(ownCommits))
	m.note("commits_per_firing_with_those_of_the_grain", figuresOf(allCommits))
	m.note("commits_per_call", figuresOf(callCommits))
	m.note("nodes", "the driver, one worker process, Consul with its data on disk")
	return m, err
}

// dueTogether sets schedules that are due at one time.
type dueTogether struct {
	driver context.Context
	kv     store.KV // of the cluster
	n      int
	rounds int
}

// fire returns how long it takes from the due time until no schedule is left, since At goes once its firing is stored, and how many
// segments were committed meanwhile.
func (d *dueTogether) fire(set func(name string, w schedule.When, key string) error) (took time.Duration, commits uint64, err error) {
	d.rounds++
	had, err := firingsRun.Go(d.driver, 0).Get(d.driver)
	if err != nil {
		return 0, 0, err
	}
	at := time.Now().Add(3*time.Second + time.Duration(d.n)*time.Millisecond)
	if err := d.set(schedule.At(at), set); err != nil {
		return 0, 0, err
	}
	before, err := d.commits()
	if err != nil {
		return 0, 0, err
	}
	left := time.Until(at)
	if left <= 0 {
		return 0, 0, fmt.Errorf("it took %v longer to set %d schedules than was left until they are due", -left, d.n)
	}
	ctx, cancel := context.WithTimeout(d.driver, left+firingGrace)
	defer cancel()
	if err := pause(ctx, left); err != nil {
		return 0, 0, err
	}
	for run := had; run < had+d.n; { // few tasks, so that the firings have the CPUs
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, 0, fmt.Errorf("%d of %d firings have run: %w", run-had, d.n, err)
		}
		if run, err = firingsRun.Go(ctx, 0).Get(ctx); err != nil {
			return 0, 0, err
		}
	}
	// A list is answered behind a commit of each shard, so what is counted is the store's own, before.
	for last := time.Now(); ; {
		now, err := d.commits()
		if err != nil {
			return 0, 0, err
		}
		if now != before+commits {
			commits, last = now-before, time.Now()
		}
		took = last.Sub(at)
		if time.Since(last) > quiet {
			break
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	for i, err := range schedule.List(d.driver, d.prefix()) {
		if err != nil {
			return 0, 0, err
		}
		return 0, 0, fmt.Errorf("schedule %s is still there after nothing was stored for %v", i.Name, quiet)
	}
	return took, commits, nil
}

// quiet is for how long a shard that has firings to store stores nothing, at most.
const quiet = 2 * time.Second

// prefix begins the names of a round's schedules.
func (d *dueTogether) prefix() string { return "round-" + strconv.Itoa(d.rounds) + "-" }

func (d *dueTogether) set(w schedule.When, set func(name string, w schedule.When, key string) error) error {
	errs := make([]error, setAtOnce)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for k := i; k < d.n && errs[i] == nil; k += setAtOnce {
				errs[i] = set(d.prefix()+strconv.Itoa(k), w, strconv.Itoa(k))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// commits counts the segments that all shards have ever committed: their logs and snapshots are named by numbers that rise by one.
func (d *dueTogether) commits() (total uint64, err error) {
	next := map[string]uint64{}
	for prefix, more := range map[string]uint64{"log/": 1, "snap/": 0} { // a snapshot is named by the first segment behind it
		keys, err := d.kv.Keys(d.driver, prefix)
		if err != nil {
			return 0, err
		}
		for _, key := range keys {
			shard, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
			number, _, _ := strings.Cut(rest, "-")
			number, _, _ = strings.Cut(number, "/")
			if n, err := strconv.ParseUint(number, 16, 64); err == nil { // else the name of a manifest
				next[shard] = max(next[shard], n+more)
			}
		}
	}
	for _, n := range next {
		total += n
	}
	return total, nil
}
