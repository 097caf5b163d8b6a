package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"

	"github.com/raysys/raysys/system"
)

// The operations that wait for each result, as the children that measure them are told.
const (
	syncTask = "task"
	syncCall = "call"
)

// syncOperations says what is timed.
var syncOperations = map[string]string{syncTask: "Go and Get of one task", syncCall: "Call and Get of one grain call"}

func tasksSyncAcross(ctx context.Context, p Plan) (measured, error) {
	return syncAcross(ctx, p, syncTask)
}

func actorSyncAcross(ctx context.Context, p Plan) (measured, error) {
	return syncAcross(ctx, p, syncCall)
}

// layout is one way to spread the two ends over the CPUs.
type layout struct {
	name  string
	asks  int // CPU of the end that asks
	other int // of the other end
}

// layouts lists the layouts that are possible on this machine, and says why others are not.
func layouts() ([]layout, string, error) {
	list, err := cpus()
	switch {
	case err != nil:
		return nil, "", err
	case len(list) == 0:
		return []layout{{"unpinned", anywhere, anywhere}}, "this system does not pin processes", nil
	case len(list) == 1:
		return []layout{{"one_cpu", list[0], list[0]}}, "two_cpus needs two CPUs", nil
	}
	return []layout{{"one_cpu", list[0], list[0]}, {"two_cpus", list[0], list[1]}}, "", nil
}

// syncAcross measures an operation that waits for its result, and a raw ping-pong of as many bytes, with each layout,
// all in turn. Every end is a process of its own, pinned from its start. The layout that is furthest from its raw limit
// stands on top.
func syncAcross(ctx context.Context, p Plan, operation string) (m measured, err error) {
	list, missing, err := layouts()
	if err != nil {
		return m, err
	}
	sizes, err := wireSizes(ctx, p, operation)
	if err != nil {
		return m, err
	}
	pairs := make([]*pair, len(list))
	defer func() {
		for _, pr := range pairs {
			if pr != nil {
				err = errors.Join(err, pr.end(ctx))
			}
		}
	}()
	variants := make([]*variant, len(list))
	for i, l := range list {
		variants[i] = &variant{name: l.name, measured: measured{latency: &hist{}, limit: pingName}}
		if pairs[i], err = newPair(ctx, p, l, operation, sizes); err != nil {
			return m, err
		}
	}
	for round := range p.Rounds + 1 {
		for i, pr := range pairs {
			if err := context.Cause(ctx); err != nil {
				return m, err
			}
			if err := pr.round(p, variants[i], round == 0); err != nil {
				return m, fmt.Errorf("%s: %w", list[i].name, err)
			}
		}
	}
	m = worst(variants, func(v *variant) float64 { return v.value / v.limitValue })
	m.latencyOf = syncOperations[operation]
	m.note("request_bytes", sizes.Request)
	m.note("reply_bytes", sizes.Reply)
	if missing != "" {
		m.note("missing", missing)
	}
	return m, nil
}

const pingName = "TCP ping-pong of as many bytes between two processes, pinned the same way"

// pair is a layout's four processes: worker and driver of a cluster, and both raw ends.
type pair struct {
	cluster *cluster
	caller  *process
	echo    *process
	ping    *process
}

func newPair(ctx context.Context, p Plan, l layout, operation string, sizes sizesReport) (pr *pair, err error) {
	pr = &pair{cluster: &cluster{name: clusterName(), plan: p}}
	defer func() {
		if err != nil {
			_ = pr.end(ctx) // the first error says more
			pr = nil
		}
	}()
	worker, err := pr.cluster.launchOn(ctx, l.other)
	if err != nil {
		return nil, err
	}
	if _, err := worker.ready(); err != nil {
		return nil, err
	}
	if pr.caller, err = launchReady(ctx, p, l.asks, childCaller, pr.cluster.name, p.Consul, operation); err != nil {
		return nil, err
	}
	var address string
	if pr.echo, address, err = launchEcho(ctx, p, l.other, sizes.Reply); err != nil {
		return nil, err
	}
	pr.ping, err = launchReady(ctx, p, l.asks, childPing, address, strconv.Itoa(sizes.Request))
	return pr, err
}

// round measures both sides once. A round to warm up does not count.
func (pr *pair) round(p Plan, v *variant, warm bool) error {
	d := p.Slice
	if warm {
		d /= 4
	}
	row, err := pr.caller.measure(d)
	if err != nil {
		return err
	}
	bare, err := pr.ping.measure(d)
	if err != nil {
		return err
	}
	if warm {
		return nil
	}
	v.rounds, v.limits = append(v.rounds, us(row.quantile(0.5))), append(v.limits, us(bare.quantile(0.5)))
	v.latency.merge(row)
	v.value, v.limitValue = median(v.rounds), median(v.limits)
	return nil
}

// end ends those of the processes that there are.
func (pr *pair) end(ctx context.Context) error {
	var errs []error
	for _, c := range []*process{pr.ping, pr.echo, pr.caller} {
		if c != nil {
			errs = append(errs, c.end())
		}
	}
	return errors.Join(append(errs, pr.cluster.end(), pr.cluster.sweep(ctx))...)
}

// callAcross is the child that is the driver of such a row.
func callAcross(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	p.Node = member(p.Node, args[0], args[1], "driver", system.Driver)
	return withOperation(ctx, p, args[2], func(driver context.Context, do func() error) error {
		return measureOnDemand(driver, one(do), in, out)
	})
}

// withOperation runs f with an operation that waits for its result.
func withOperation(ctx context.Context, p Plan, operation string, f func(driver context.Context, do func() error) error) error {
	if syncOperations[operation] == "" {
		return &SelectionError{fmt.Sprintf("operation %q: give %s or %s", operation, syncTask, syncCall)}
	}
	return withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		if err := otherProcess(driver, operation); err != nil {
			return err
		}
		return f(driver, waiting(driver, operation))
	})
}

// waiting returns the operation, which waits for its result.
func waiting(driver context.Context, operation string) func() error {
	if operation == syncTask {
		return func() error {
			v, err := increment.Go(driver, 1).Get(driver)
			return errors.Join(err, expect(v, raw(1)))
		}
	}
	g, last := counters.Get("sync"), 0
	return func() error {
		last++
		v, err := add.Call(driver, g, 1).Get(driver)
		return errors.Join(err, expect(v, last))
	}
}

// otherProcess makes sure that the other end of the operation is in another process.
func otherProcess(driver context.Context, operation string) error {
	done := processOf.Go(driver, 0)
	if operation == syncCall {
		done = where.Call(driver, counters.Get("sync"))
	}
	pid, err := done.Get(driver)
	if err == nil && pid == os.Getpid() {
		err = fmt.Errorf("a %s of the driver ran in its own process", operation)
	}
	return err
}

const poolName = "goroutine pool behind a buffered channel"

// pool is the raw limit of the task rows: as many goroutines as CPUs, one buffered channel that feeds them, each
// result stored where its batch has a place for it, and a WaitGroup per batch. It has no ids, no cancellation, no
// futures of their own and no bound on how long a result waits.
type pool struct {
	jobs    chan poolJob // closed by close
	workers sync.WaitGroup
}

type poolJob struct {
	arg    int
	result *int
	batch  *sync.WaitGroup
}

func newPool() *pool {
	p := &pool{jobs: make(chan poolJob, batch)}
	for range runtime.GOMAXPROCS(0) {
		p.workers.Go(func() {
			for j := range p.jobs {
				*j.result = raw(j.arg)
				j.batch.Done()
			}
		})
	}
	return p
}

func onPool() bare { return newPool() }

func (p *pool) close() {
	close(p.jobs)
	p.workers.Wait()
}

// run is one batch: submit all, wait for all, read all.
func (p *pool) run(results []int) error {
	var wg sync.WaitGroup
	wg.Add(len(results))
	for i := range results {
		p.jobs <- poolJob{i, &results[i], &wg}
	}
	wg.Wait()
	for i, v := range results {
		if err := expect(v, raw(i)); err != nil {
			return err
		}
	}
	return nil
}

const pingPongName = "ping-pong over two unbuffered channels"

// pingPong is the raw limit of the rows that wait for each result: another goroutine does the work.
type pingPong struct {
	ask    chan int // closed by close
	answer chan int // never closed
	done   sync.WaitGroup
}

func newPingPong() *pingPong {
	p := &pingPong{ask: make(chan int), answer: make(chan int)}
	p.done.Go(func() {
		for x := range p.ask {
			p.answer <- raw(x)
		}
	})
	return p
}

func (p *pingPong) run() error {
	p.ask <- 1
	return expect(<-p.answer, raw(1))
}

func (p *pingPong) close() {
	close(p.ask)
	p.done.Wait()
}
