package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/tasks"
)

// The row of figure 10b of the paper (Ray, OSDI 2018): tasks without work, one batch after the other, and what the driver,
// the worker and the store have needed of memory after each tenth of them.

// manyTasks is how many tasks the row runs where the plan does not say.
const manyTasks = 50 * million

// tenths is how often the row looks.
const tenths = 10

func manyTasksRow() Row {
	return Row{
		Name: "tasks_50m", Unit: "tasks/s", Named: true, measure: tasksInTenths,
		Operation: "50,000,000 tasks without work (--tasks), run in another process, 1000 in flight; the memory of both processes and of the store is in the details",
	}
}

// tasksInTenths compares the last tenths with the first.
func tasksInTenths(ctx context.Context, p Plan) (m measured, err error) {
	n := p.Tasks
	if n == 0 {
		n = manyTasks
	}
	batches := max(n/batch/tenths, 1)
	var drivers, workers, heaps, keys, bytes []float64
	m.latency = &hist{}
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		if err := c.tasksElsewhere(driver); err != nil {
			return err
		}
		kv, err := c.store("raysys/" + c.name + "/")
		if err != nil {
			return err
		}
		defer kv.Close()
		refs := make([]raysys.Ref[int], batch)
		for range tenths {
			from := time.Now()
			for range batches {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				began := time.Now()
				if err := submitBatch(driver, refs); err != nil {
					return err
				}
				m.latency.add(time.Since(began))
			}
			m.rounds = append(m.rounds, float64(batches*batch)/time.Since(from).Seconds())
			here, err := residentBytes("self")
			if err != nil {
				return err
			}
			there, err := residentBytes(strconv.Itoa(c.workers[0].pid()))
			if err != nil {
				return err
			}
			pairs, _, err := kv.List(ctx, "", store.Consistent)
			if err != nil {
				return err
			}
			stored := 0
			for _, pair := range pairs {
				stored += len(pair.Key) + len(pair.Value)
			}
			drivers, workers, heaps = append(drivers, mib(here)), append(workers, mib(there)), append(heaps, mib(liveHeap()))
			keys, bytes = append(keys, float64(len(pairs))), append(bytes, float64(stored))
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	m.value, m.limitValue = mean(m.rounds[1:]), m.rounds[0]
	m.limit, m.latencyOf = "the first tenth of them", "submit 1000 and get 1000"
	m.note("tasks", tenths*batches*batch)
	m.note("driver_resident_mib", figuresOf(drivers))
	m.note("driver_live_heap_mib", figuresOf(heaps))
	m.note("worker_resident_mib", figuresOf(workers))
	m.note("store_keys", keys)
	m.note("store_bytes", bytes)
	m.note("cpus", runtime.GOMAXPROCS(0))
	return m, nil
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(len(list), 1))
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// storedSchedules is how many schedules wait in the row.
const storedSchedules = 100_000

// workerHeap is the live heap of the worker's process.
var workerHeap = tasks.DefineIn(functions, "worker-heap", func(context.Context, int) (uint64, error) { return liveHeap(), nil })

// schedulesStored measures what schedules that wait take in Consul and in the process that leads their shards, beside placements of as many
// grains in another cluster.
func schedulesStored(ctx context.Context, p Plan) (measured, error) {
	return storedOver(ctx, p, storedSchedules)
}

func storedOver(ctx context.Context, p Plan, n int) (m measured, err error) {
	var schedules, placements holding
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		s := &dueTogether{driver: driver, n: n}
		schedules, err = holds(driver, c, n, func() error {
			return s.set(schedule.Every(30*24*time.Hour), func(name string, w schedule.When, key string) error {
				return schedule.Call(driver, name, w, accountFire, accounts.Get(key), 1)
			})
		})
		return err
	})
	if err != nil {
		return m, err
	}
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		placements, err = holds(driver, c, n, func() error {
			refs := make([]raysys.Ref[int], min(batch, n))
			for first := 0; first < n; first += len(refs) {
				if err := c.activate(driver, first, refs); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	m.value, m.limitValue = schedules.each(), placements.each()
	m.limit = "a grain's placement, which the registry stores too"
	m.note("schedules", schedules.figures())
	m.note("placements", placements.figures())
	m.note("nodes", "the driver, one worker process that leads all shards, Consul with its data on disk")
	return m, err
}

// holding is what n of something take.
type holding struct {
	n              int
	took           time.Duration
	log, snapshots int // bytes of keys and values in Consul
	resident, heap [2]uint64
}

// each is how many bytes in Consul one takes.
func (h holding) each() float64 { return float64(h.log+h.snapshots) / float64(h.n) }

func (h holding) figures() map[string]any {
	return map[string]any{
		"count": h.n, "set_seconds": figures(h.took.Seconds()), "consul_log_bytes": h.log, "consul_snapshot_bytes": h.snapshots,
		"leader_resident_mib":  figuresOf([]float64{mib(h.resident[0]), mib(h.resident[1])}),
		"leader_live_heap_mib": figuresOf([]float64{mib(h.heap[0]), mib(h.heap[1])}),
	}
}

// holds makes n of something, and looks before and after at the store and at the worker, which leads all shards.
func holds(driver context.Context, c *cluster, n int, set func() error) (h holding, err error) {
	if err := c.tasksElsewhere(driver); err != nil {
		return h, err
	}
	kv, err := c.store("raysys/" + c.name + "/")
	if err != nil {
		return h, err
	}
	defer kv.Close()
	h.n = n
	look := func(i int) (err error) {
		if h.heap[i], err = workerHeap.Go(driver, 0).Get(driver); err != nil {
			return err
		}
		h.resident[i], err = residentBytes(strconv.Itoa(c.workers[0].pid()))
		return err
	}
	if err := look(0); err != nil {
		return h, err
	}
	began := time.Now()
	if err := set(); err != nil {
		return h, fmt.Errorf("make %d: %w", n, err)
	}
	h.took = time.Since(began)
	if err := pause(driver, quiet); err != nil { // a snapshot that is being written ends, and the log behind it goes
		return h, err
	}
	if err := look(1); err != nil {
		return h, err
	}
	pairs, _, err := kv.List(driver, "", store.Consistent)
	if err != nil {
		return h, err
	}
	for _, pair := range pairs {
		if size := len(pair.Key) + len(pair.Value); strings.HasPrefix(pair.Key, "snap/") {
			h.snapshots += size
		} else {
			h.log += size
		}
	}
	return h, nil
}

// expect keeps a fast wrong answer from counting.
func expect(got, want int) error {
	if got != want {
		return fmt.Errorf("wrong result: got %d, want %d", got, want)
	}
	return nil
}

// collect gets the results of a batch whose arguments were 0, 1, 2...
func collect(ctx context.Context, refs []raysys.Ref[int]) error { return getAll(ctx, refs, raw(0)) }

func submitBatch(ctx context.Context, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = increment.Go(ctx, i)
	}
	return collect(ctx, refs)
}

// syncHere measures an operation that waits for its result inside the process.
func syncHere(ctx context.Context, p Plan, operation string) (m measured, err error) {
	peer := newPingPong()
	defer peer.close()
	m, err = onNode(ctx, p, compareLatency, func(driver context.Context) (value, limit side) {
		return one(waiting(driver, operation)), one(peer.run)
	})
	m.limit, m.latencyOf = pingPongName, syncOperations[operation]
	return m, err
}

func tasksSync(ctx context.Context, p Plan) (measured, error) {
	m, err := syncHere(ctx, p, syncTask)
	m.note("note", "a Get may run a task that has not started on its own goroutine; the ping-pong always changes goroutines")
	return m, err
}

func actorSync(ctx context.Context, p Plan) (measured, error) { return syncHere(ctx, p, syncCall) }

// together runs do for each client at the same time and waits for all.
func together(do func(client int) error) error {
	var wg sync.WaitGroup
	var errs [clients]error
	for i := range clients {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// functions is the table of the functions that the rows call. It is the benchmark's own, apart from others of the
// binary.
var functions = raysys.NewTable()

// raw is the work of one task, and of one operation of the raw limits: as little as there can be.
func raw(x int) int { return x + 1 }

var increment = tasks.DefineIn(functions, "increment", func(_ context.Context, x int) (int, error) { return raw(x), nil })

// processOf says which process a task runs in.
var processOf = tasks.DefineIn(functions, "process", func(context.Context, int) (int, error) { return os.Getpid(), nil })

// makeList returns n objects by reference.
var makeList = tasks.DefineIn(functions, "make-list", func(ctx context.Context, n int) ([]raysys.Ref[int], error) {
	refs := make([]raysys.Ref[int], n)
	for i := range refs {
		refs[i] = raysys.Put(ctx, i)
	}
	return refs, nil
})

// addends is an argument that is all references: the task starts when every one of them is there.
type addends struct{ Refs []raysys.Ref[int] }

var sum = tasks.DefineIn(functions, "sum", func(ctx context.Context, a addends) (int, error) {
	total := 0
	for _, r := range a.Refs {
		v, err := r.Get(ctx)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
})

// counter is the grain of the actor rows: one word of state.
type counter struct{ n int }

func (c *counter) add(_ context.Context, d int) (int, error) {
	c.n += d
	return c.n, nil
}

// where says which process the grain is in.
func (c *counter) where(context.Context) (int, error) { return os.Getpid(), nil }

var (
	counters = grains.DefineIn[counter](functions, "counter")
	add      = grains.Method(counters, "add", (*counter).add)
	where    = grains.Method0(counters, "where", (*counter).where)

	keepers     = grains.DefineIn[counter](functions, "keeper", grains.AlwaysOn())
	whereKeeper = grains.Method0(keepers, "where", (*counter).where)
)

// group is that of allreduce_small.
var group = collective.DefineIn[float32](functions, "bench-group")
