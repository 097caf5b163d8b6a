package bench

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

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
