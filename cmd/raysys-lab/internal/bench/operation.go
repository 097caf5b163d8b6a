package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

// operation is what a row measures with many of them in flight. It is the same in both tiers, beside another raw limit in
// each.
type operation struct {
	latencyOf string // what one call of do is
	clients   int    // that call it at the same time, each with a driver of its own
	ops       int    // in one call
	// prepare returns do, given each client's driver.
	prepare func(drivers []context.Context) (do func(client int) error)
	// elsewhere refuses a cluster in which the work is done in no worker's process.
	elsewhere func(c *cluster, driver context.Context) error
}

var (
	taskBatches   = operation{"a batch of 1000 tasks, first Go to last result", 1, batch, submitBatches, (*cluster).tasksElsewhere}
	taskMaps      = operation{"a Map over 1000 and the get of its results", 1, batch, mapBatches, (*cluster).tasksElsewhere}
	clientBatches = operation{"a batch of 1000 tasks from each of 4 drivers", clients, batch, submitBatches, (*cluster).tasksElsewhere}
	waits         = operation{"1000 tasks and 1000 waits", 1, 1, waitForEach, (*cluster).tasksElsewhere}
	callBatches   = operation{"1000 calls, first Call to last result", 1, batch, callsTo("async"), elsewhereOf("async")}
	clientCalls   = operation{
		"1000 calls from each of 4 drivers to 4 grains", clients, batch,
		callsTo("n-0", "n-1", "n-2", "n-3"), elsewhereOf("n-0", "n-1", "n-2", "n-3"),
	}
	// seenPuts counts puts that another process has seen: the task there adds up a thousand of them, by reference.
	seenPuts = operation{
		"1000 puts, one task in another process that gets all of them, its result", 1, batch, putAndSum, (*cluster).tasksElsewhere,
	}
)

func submitBatches(drivers []context.Context) func(client int) error {
	refs := batches[raysys.Ref[int]](len(drivers))
	return func(i int) error { return submitBatch(drivers[i], refs[i]) }
}

func mapBatches(drivers []context.Context) func(client int) error {
	args := make([]int, batch)
	for i := range args {
		args[i] = i
	}
	return func(i int) error { return collect(drivers[i], increment.Map(drivers[i], args)) }
}

func waitForEach(drivers []context.Context) func(client int) error {
	refs := batches[raysys.Ref[int]](len(drivers))
	return func(i int) error { return submitAndWait(drivers[i], refs[i]) }
}

func callsTo(keys ...string) func(drivers []context.Context) func(client int) error {
	return func(drivers []context.Context) func(client int) error {
		to := make([]grains.Grain[counter], len(keys))
		for i, k := range keys {
			to[i] = counters.Get(k)
		}
		refs, results := batches[raysys.Ref[int]](len(drivers)), batches[int](len(drivers))
		return func(i int) error { return call(drivers[i], to, refs[i], results[i]) }
	}
}

func elsewhereOf(keys ...string) func(c *cluster, driver context.Context) error {
	return func(c *cluster, driver context.Context) error {
		for _, k := range keys {
			if err := c.elsewhere(driver, counters.Get(k)); err != nil {
				return err
			}
		}
		return nil
	}
}

func putAndSum(drivers []context.Context) func(client int) error {
	refs := batches[raysys.Ref[int]](len(drivers))
	return func(i int) error {
		for k := range refs[i] {
			refs[i][k] = raysys.Put(drivers[i], k)
		}
		v, err := sum.Go(drivers[i], addends{refs[i]}).Get(drivers[i])
		return errors.Join(err, expect(v, batch*(batch-1)/2))
	}
}

// batches makes room for a batch of each client.
func batches[T any](clients int) [][]T {
	all := make([][]T, clients)
	for i := range all {
		all[i] = make([]T, batch)
	}
	return all
}

// side is a call of each client at the same time.
func (o operation) side(do func(client int) error) side {
	if o.clients == 1 {
		return side{o.ops, func() error { return do(0) }}
	}
	return side{o.clients * o.ops, func() error { return together(do) }}
}

func (o operation) drivers(ctx context.Context, n *system.Node) []context.Context {
	list := make([]context.Context, o.clients)
	for i := range list {
		list[i] = n.Context(ctx)
	}
	return list
}

// note says what holds for the operation beside any limit.
func (o operation) note(m *measured) {
	m.latencyOf = o.latencyOf
	if o.clients > 1 {
		m.note("clients", o.clients)
	}
}

// bare is the raw limit of an operation inside a process.
type bare interface {
	run(results []int) error // is one client's call
	close()
}

// beside compares the operation, on a node of its own, with what a Go program without raysys would write.
func (o operation) beside(limit string, begin func() bare) func(context.Context, Plan) (measured, error) {
	return func(ctx context.Context, p Plan) (m measured, err error) {
		b := begin()
		defer b.close()
		err = withNode(ctx, p, func(_ context.Context, n *system.Node) error {
			results := batches[int](o.clients)
			m, err = compareRates(ctx, p, o.side(o.prepare(o.drivers(ctx, n))), o.side(func(i int) error { return b.run(results[i]) }))
			return err
		})
		m.limit = limit
		o.note(&m)
		return m, err
	}
}

// besideEcho compares the operation, whose other end is a worker process, with framed TCP to another process, over as
// many connections as there are clients.
func (o operation) besideEcho(ctx context.Context, p Plan) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) (err error) {
		if err := o.elsewhere(c, driver); err != nil {
			return err
		}
		e, err := newEchoes(ctx, p, o.clients)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.close()) }()
		m, err = compareRates(ctx, p, o.side(o.prepare(o.drivers(ctx, c.driver))), o.side(func(i int) error { return e.callers[i].batch(batch) }))
		return err
	})
	m.limit = echoName
	if o.clients > 1 {
		m.limit += ", " + strconv.Itoa(o.clients) + " connections"
	}
	m.note("nodes", "the driver without CPUs of its own, one worker process")
	o.note(&m)
	return m, err
}

// inTurns measures the operation while something else goes on in the process, from begin to the end that it returns, and in turn without.
func (o operation) inTurns(ctx context.Context, p Plan, begin func(*system.Node) (end func() error)) (m measured, err error) {
	m = measured{latency: &hist{}, latencyOf: o.latencyOf}
	err = withNode(ctx, p, func(driver context.Context, node *system.Node) error {
		do := o.prepare([]context.Context{driver})
		s := side{o.ops, func() error { return do(0) }}
		if _, err := s.loop(p.Slice, &hist{}); err != nil { // it warms up
			return err
		}
		for range p.Rounds {
			off, err := s.loop(p.Slice, &hist{})
			if err != nil {
				return err
			}
			end := begin(node)
			on, err := s.loop(p.Slice, m.latency)
			if err = errors.Join(err, end()); err != nil {
				return err
			}
			m.rounds, m.limits = append(m.rounds, on), append(m.limits, off)
		}
		m.value, m.limitValue = median(m.rounds), median(m.limits)
		return nil
	})
	return m, err
}

// recorded measures the operation while a timeline is recorded, beside the same without one.
func (o operation) recorded(ctx context.Context, p Plan) (measured, error) {
	const lead = 50 * time.Millisecond // until the recording is on
	var begun, events float64
	m, err := o.inTurns(ctx, p, func(node *system.Node) func() error {
		all, over := inspect.Timeline{}, make(chan error, 1)
		go func() {
			var err error
			all, err = node.Timeline(ctx, inspect.TimelineQuery{For: p.Slice + 4*lead}, io.Discard)
			over <- err
		}()
		<-time.After(lead)
		return func() error {
			err := <-over
			begun, events = begun+float64(all.Begun), events+float64(all.Events)
			return err
		}
	})
	m.limit = "the same with no recording"
	m.note("begun", figures(begun))
	m.note("events", figures(events))
	return m, err
}

// The readers of watched, what each asks for, as the overview does, and how often.
const (
	readers    = 5
	readerPace = 1050 * time.Millisecond
)

var readerAsks = []string{"status", "functions?limit=500", "failures?limit=50", "tasks?state=waiting&limit=5"}

// watched measures the operation while tabs look at the page of the node, beside the same without.
func (o operation) watched(ctx context.Context, p Plan) (m measured, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return m, err
	}
	p.Node.HTTP = l.Addr().String()
	l.Close()
	p.Slice *= 20 // a reader comes about once a second
	var answers atomic.Int64
	m, err = o.inTurns(ctx, p, func(*system.Node) func() error {
		ctx, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		errs := make(chan error, readers)
		for range readers {
			all.Go(func() {
				for ctx.Err() == nil {
					for _, what := range readerAsks {
						if err := read(ctx, "http://"+p.Node.HTTP+"/api/"+what); err != nil && ctx.Err() == nil {
							errs <- err
							return
						}
						answers.Add(1)
					}
					select {
					case <-time.After(readerPace):
					case <-ctx.Done():
					}
				}
			})
		}
		return func() error {
			cancel()
			all.Wait()
			close(errs)
			return <-errs
		}
	})
	m.limit = "the same with no reader"
	m.note("readers", readers)
	m.note("answers", answers.Load())
	return m, err
}

// read reads an answer to its end.
func read(ctx context.Context, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err = io.Copy(io.Discard, r.Body); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, r.Status)
	}
	return err
}
