package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// alwaysActivate measures first calls to grains that are always on, of which each is a second record, beside those of grains that are not.
func alwaysActivate(ctx context.Context, p Plan) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		fresh, plain := 0, 0
		refs := make([]raysys.Ref[int], batch)
		m, err = compareRates(ctx, p, side{batch, func() error {
			for i := range refs {
				refs[i] = whereKeeper.Call(driver, keepers.Get(strconv.Itoa(fresh)))
				fresh++
			}
			return c.areWorkers(driver, refs)
		}}, side{batch, func() error {
			plain += batch
			return c.activate(driver, plain-batch, refs)
		}})
		return err
	})
	m.limit, m.latencyOf = "grain_activate", "1000 first calls, to the last answer"
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
