package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// The rows of large objects put them in this process, the driver, and look at them in tasks that are kept to one worker
// each, which measure how long that takes them.

// options are the settings of a cluster's workers that differ from the defaults.
type options struct {
	NoSharing bool   `json:"no_sharing"`
	Certs     string `json:"certs"` // directory of makeCertificates; empty for plain TCP
}

// apply makes a node one of the cluster's. Nil options change nothing.
func (o *options) apply(cfg *system.Config, node string) {
	if o == nil {
		return
	}
	cfg.Objects.NoSharing = o.NoSharing
	cfg.Cluster.Labels = map[string]string{workerLabel: node}
	if o.Certs != "" {
		cfg.Cluster.TLS = certified(o.Certs, node)
	}
}

// workerLabel is the label by which a task is kept to one worker.
const workerLabel = "bench-worker"

// work is the child that is a worker. Its options may be null.
func work(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	var o *options
	if err := json.Unmarshal([]byte(args[3]), &o); err != nil {
		return &SelectionError{fmt.Sprintf("options %q: %v", args[3], err)}
	}
	p.Node = member(p.Node, args[0], args[1], args[2], system.Worker)
	o.apply(&p.Node, args[2])
	return withNode(ctx, p, func(context.Context, *system.Node) error { return sayAndWait(in, out) })
}

// withObjects is withCluster of workers with options.
func withObjects(ctx context.Context, p Plan, workers int, o options, f func(driver context.Context, c *cluster) error) (err error) {
	c := &cluster{name: clusterName(), plan: p, options: &o}
	return errors.Join(c.run(ctx, workers, f), c.sweep(ctx))
}

// glance is how a task looks at an object.
type glance struct {
	Object raysys.Handle[[]byte]
	Get    bool // Get it instead
	Touch  bool // and read a byte of every page
}

// seen is the answer of that task.
type seen struct {
	PID   int
	Len   int
	First byte
	Last  byte
	Open  time.Duration // until it could read
	Touch time.Duration
}

var look = tasks.DefineIn(functions, "look", func(ctx context.Context, g glance) (s seen, err error) {
	s.PID = os.Getpid()
	begin := time.Now()
	at := func(b []byte) error {
		s.Open = time.Since(begin)
		s.Len, s.First, s.Last = len(b), b[0], b[len(b)-1]
		if g.Touch {
			begin = time.Now()
			touched.Store(touch(b))
			s.Touch = time.Since(begin)
		}
		return nil
	}
	if !g.Get {
		return s, raysys.View(ctx, g.Object.Ref(), at)
	}
	b, err := g.Object.Ref().Get(ctx)
	if err != nil {
		return s, err
	}
	return s, at(b)
})

// tidy frees garbage of the process, so that memory is there for the next round.
var tidy = tasks.DefineIn(functions, "tidy", func(context.Context, int) (int, error) {
	runtime.GC() // cleanups of the first may free memory that the second finds
	runtime.GC()
	return os.Getpid(), nil
})

// on keeps a task to one worker, whatever else it runs.
func on(worker string) []raysys.Option {
	return []raysys.Option{raysys.Label(workerLabel, worker), raysys.CPU(0)}
}

// look has a worker look at an object, and makes sure that it saw it.
func (c *cluster) look(driver context.Context, worker string, data []byte, g glance) (seen, error) {
	s, err := look.With(on(worker)...).Go(driver, g).Get(driver)
	if err != nil {
		return s, fmt.Errorf("%s: %w", worker, err)
	}
	if err := c.isWorker(s.PID); err != nil {
		return s, err
	}
	if s.Len != len(data) || s.First != data[0] || s.Last != data[len(data)-1] {
		return s, fmt.Errorf("%s saw %d bytes from %d to %d, not %d", worker, s.Len, s.First, s.Last, len(data))
	}
	return s, nil
}

// empty waits until no worker and no driver holds an object any more. There is nothing that tells, so the nodes are
// asked.
func (c *cluster) empty(driver context.Context) error {
	ctx, cancel := context.WithTimeout(driver, settlePatience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		for _, w := range c.names {
			if _, err := tidy.With(on(w)...).Go(ctx, 0).Get(ctx); err != nil {
				return err
			}
		}
		m, err := c.driver.Memory(ctx, "", 1)
		if err != nil {
			return err
		}
		left := 0
		for _, n := range m.Nodes {
			if n.Error != "" {
				return fmt.Errorf("memory of %s: %s", n.Name, n.Error)
			}
			left += n.Count
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d objects are left without references: %w", left, context.Cause(ctx))
		}
	}
}

// sent is how many bytes of objects the driver has sent.
func (c *cluster) sent(ctx context.Context) (uint64, error) {
	m, err := c.driver.Memory(ctx, c.driver.Name(), 0)
	if err != nil {
		return 0, err
	}
	return m.Nodes[0].Transfer.BytesOut, nil
}

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

const million = 1_000_000

func queuedMillion(ctx context.Context, p Plan) (measured, error) { return queued(ctx, p, million) }

// queued submits n tasks while every CPU is held by a task, so that all n are in the queue at once, and drains them.
// The clock runs while they are submitted and from the moment the CPUs are free to the last result.
func queued(ctx context.Context, p Plan, n int) (m measured, err error) {
	q := &backlog{table: raysys.NewTable(), busy: make(chan struct{}), refs: make([]raysys.Ref[int], n)}
	// The tasks that hold the CPUs wait for a channel, which no argument can carry, so they close over q.
	q.hold = tasks.Define0In(q.table, "hold", func(context.Context) (int, error) {
		q.busy <- struct{}{}
		<-q.open
		return 0, nil
	})
	q.work = tasks.DefineIn(q.table, "increment", func(_ context.Context, x int) (int, error) { return raw(x), nil })
	p.Node.Table = q.table
	p.Rounds = min(p.Rounds, 3) // each is a good part of a second

	m.latency = &hist{}
	err = withNode(ctx, p, func(driver context.Context, node *system.Node) error {
		// A round that does not count: it warms up, and stops to look at the heap with the queue full.
		heap, before := uint64(0), liveHeap()
		if _, _, err := q.round(driver, node, func() { heap = liveHeap() }); err != nil {
			return err
		}
		results := make([]int, n)
		seconds := make([]float64, 0, p.Rounds)
		var submits []float64
		for range p.Rounds {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			submit, drain, err := q.round(driver, node, func() {})
			if err != nil {
				return err
			}
			took := submit + drain
			seconds, submits = append(seconds, took.Seconds()), append(submits, submit.Seconds())
			m.latency.add(took)
			m.rounds = append(m.rounds, float64(n)/took.Seconds())
			m.limits = append(m.limits, float64(n)/closures(results).Seconds())
		}
		m.value, m.limitValue = median(m.rounds), median(m.limits)
		m.note("seconds", figures(median(seconds)))
		m.note("submit_seconds", figures(median(submits)))
		m.note("peak_live_heap_mib", figures(float64(heap)/(1<<20)))
		m.note("live_heap_before_mib", figures(float64(before)/(1<<20)))
		return nil
	})
	m.limit, m.latencyOf = "as many closures into a channel with room for all, then drained by a goroutine per CPU", "the whole of one round"
	return m, err
}

// backlog has the tasks of one run, and the means to hold them back.
type backlog struct {
	table *raysys.Table
	hold  tasks.Task0[int]
	work  tasks.Task[int, int]
	busy  chan struct{} // one message from each task that holds a CPU; never closed
	open  chan struct{} // closed by round, to let go; made anew by each
	refs  []raysys.Ref[int]
}

func (q *backlog) round(ctx context.Context, node *system.Node, full func()) (submit, drain time.Duration, err error) {
	q.open = make(chan struct{})
	holders := make([]raysys.Ref[int], int(node.Resources().CPU))
	for i := range holders {
		holders[i] = q.hold.Go(ctx)
	}
	for range holders {
		<-q.busy
	}
	start := time.Now()
	for i := range q.refs {
		q.refs[i] = q.work.Go(ctx, i)
	}
	submit = time.Since(start)
	full()
	start = time.Now()
	close(q.open)
	if err := collect(ctx, q.refs); err != nil {
		return 0, 0, err
	}
	drain = time.Since(start)
	for _, h := range holders {
		if _, err := h.Get(ctx); err != nil {
			return 0, 0, err
		}
	}
	clear(q.refs)
	return submit, drain, nil
}

// closures is the raw limit.
func closures(results []int) time.Duration {
	start := time.Now()
	work := make(chan func(), len(results))
	for i := range results {
		work <- func() { results[i] = raw(i) }
	}
	close(work)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for f := range work {
				f()
			}
		})
	}
	workers.Wait()
	return time.Since(start)
}

// liveHeap returns the bytes that the garbage collector finds alive. The second collection frees the memory that
// finalizers and cleanups of the first let go.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
