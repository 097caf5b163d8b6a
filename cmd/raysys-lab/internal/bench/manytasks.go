package bench

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
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
