package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// ranks of allreduce_small, each in a process of its own, and their vectors of 8 KiB.
const (
	ranks   = 4
	vectors = 8 << 10 / 4
)

// part is the work of one rank.
type part struct {
	Group  string
	Rank   int
	Rounds int
}

// timed are the durations of the rounds of one rank.
type timed struct {
	PID    int
	Rounds []time.Duration
}

// reduceTogether is a rank of the collective.
var reduceTogether = tasks.DefineIn(functions, "reduce-together", func(ctx context.Context, a part) (timed, error) {
	x := timed{PID: os.Getpid()}
	m, err := group.Join(ctx, a.Group, a.Rank, ranks)
	if err != nil {
		return x, err
	}
	defer m.Leave()
	vec := vectorOf(a.Rank)
	for range a.Rounds {
		begin := time.Now()
		total, err := m.AllReduce(ctx, vec, collective.Sum)
		if err != nil {
			return x, err
		}
		x.Rounds = append(x.Rounds, time.Since(begin))
		if err := wholeSum(total); err != nil {
			return x, err
		}
	}
	return x, nil
})

func vectorOf(rank int) []float32 {
	vec := make([]float32, vectors)
	for i := range vec {
		vec[i] = float32(rank)
	}
	return vec
}

func wholeSum(total []float32) error {
	if len(total) != vectors {
		return fmt.Errorf("the sum has %d elements, not %d", len(total), vectors)
	}
	return errors.Join(expect(int(total[0]), ranks*(ranks-1)/2), expect(int(total[vectors-1]), ranks*(ranks-1)/2))
}

// share of the naive way: a grain that gives its vector and takes the sum.
type shareholder struct{ vec, total []float32 }

func (s *shareholder) give(_ context.Context, rank int) ([]float32, error) {
	if s.vec == nil {
		s.vec = vectorOf(rank)
	}
	return s.vec, nil
}

func (s *shareholder) take(_ context.Context, total []float32) (int, error) {
	s.total = total
	return len(total), nil
}

func (s *shareholder) where(context.Context) (int, error) { return os.Getpid(), nil }

var (
	shareholders = grains.DefineIn[shareholder](functions, "shareholder", grains.Placement(raysys.Spread))
	give         = grains.Method(shareholders, "give", (*shareholder).give)
	take         = grains.Method(shareholders, "take", (*shareholder).take)
	whereHeld    = grains.Method0(shareholders, "where", (*shareholder).where)
)

// naivePart is the work of the root in the naive way.
type naivePart struct {
	Keys   []string // of the shareholders
	Rounds int
}

// reduceNaively gathers the vectors of all, adds them up, and brings everyone the sum.
var reduceNaively = tasks.DefineIn(functions, "reduce-naively", func(ctx context.Context, a naivePart) (timed, error) {
	x := timed{PID: os.Getpid()}
	all := make([]grains.Grain[shareholder], len(a.Keys))
	for i, k := range a.Keys {
		all[i] = shareholders.Get(k)
	}
	vecs := make([]raysys.Ref[[]float32], len(all))
	for range a.Rounds {
		begin := time.Now()
		for rank, g := range all {
			vecs[rank] = give.Call(ctx, g, rank)
		}
		total := make([]float32, vectors)
		for _, r := range vecs {
			v, err := r.Get(ctx)
			if err != nil {
				return x, err
			}
			for i := range total {
				total[i] += v[i]
			}
		}
		for _, r := range take.Each(ctx, all, total) {
			if n, err := r.Get(ctx); err != nil || n != vectors {
				return x, errors.Join(err, expect(n, vectors))
			}
		}
		x.Rounds = append(x.Rounds, time.Since(begin))
		if err := wholeSum(total); err != nil {
			return x, err
		}
	}
	return x, nil
})

// allReduceSmall measures an AllReduce over four processes, beside gathering the vectors in one of them and bringing
// everyone the sum.
func allReduceSmall(ctx context.Context, p Plan) (m measured, err error) {
	m = measured{latency: &hist{}, latencyOf: "one AllReduce, at the rank where the median is largest", limit: "gather at one process and bring everyone the sum, by grain calls"}
	each := max(2, int(p.Slice/(250*time.Microsecond)))
	err = withObjects(ctx, p, ranks, options{}, func(driver context.Context, c *cluster) error {
		keys, err := c.shareholders(driver)
		if err != nil {
			return err
		}
		for round := range p.Rounds + 1 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			good, err := c.reduce(driver, "round-"+strconv.Itoa(round), each)
			if err != nil {
				return err
			}
			bad, err := reduceNaively.With(on(c.names[0])...).Go(driver, naivePart{keys, each}).Get(driver)
			if err != nil {
				return fmt.Errorf("naive: %w", err)
			}
			if round == 0 {
				continue
			}
			h := histOf(bad.Rounds)
			m.rounds, m.limits = append(m.rounds, us(good.quantile(0.5))), append(m.limits, us(h.quantile(0.5)))
			m.latency.merge(good)
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("operations_per_round", each)
	if m.value > 0 {
		m.note("times_faster", figures(m.limitValue/m.value))
	}
	return m, err
}

// reduce runs all ranks, and returns the durations of the slowest.
func (c *cluster) reduce(driver context.Context, group string, n int) (*hist, error) {
	errs := make([]error, ranks)
	all := make([]*hist, ranks)
	var wg sync.WaitGroup
	for rank := range ranks {
		wg.Go(func() {
			x, err := reduceTogether.With(on(c.names[rank])...).Go(driver, part{group, rank, n}).Get(driver)
			if err == nil {
				err = c.isWorker(x.PID)
			}
			all[rank], errs[rank] = histOf(x.Rounds), err
		})
	}
	wg.Wait()
	slowest := all[0]
	for _, h := range all {
		if h.quantile(0.5) > slowest.quantile(0.5) {
			slowest = h
		}
	}
	return slowest, errors.Join(errs...)
}

// shareholders finds one in each worker.
func (c *cluster) shareholders(driver context.Context) (keys []string, err error) {
	const tries = 1000
	has := map[int]bool{}
	for i := 0; len(keys) < ranks; i++ {
		if i == tries {
			return nil, fmt.Errorf("%d grains are in %d processes, not in %d", tries, len(keys), ranks)
		}
		key := "share-" + strconv.Itoa(i)
		pid, err := whereHeld.Call(driver, shareholders.Get(key)).Get(driver)
		if err != nil {
			return nil, err
		}
		if !has[pid] {
			has[pid] = true
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func histOf(ds []time.Duration) *hist {
	h := &hist{}
	for _, d := range ds {
		h.add(d)
	}
	return h
}

const mapName = "access to a map[int]int"

// table1k is the raw limit of the get and put rows: the values in a map, without a lock, for one goroutine.
func table1k(n int) map[int]int {
	m := make(map[int]int, n)
	for i := range n {
		m[i] = i
	}
	return m
}

func getSmall(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareRates, func(driver context.Context) (value, limit side) {
		refs, bare := make([]raysys.Ref[int], batch), table1k(batch)
		for i := range refs {
			refs[i] = raysys.Put(driver, i)
		}
		return side{batch, func() error { return getAll(driver, refs, 0) }}, side{batch, func() error { return lookAll(bare) }}
	})
	m.limit, m.latencyOf = mapName, "1000 gets"
	return m, err
}

// getAll gets values that are first, first+1...
func getAll(ctx context.Context, refs []raysys.Ref[int], first int) error {
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if err := expect(v, first+i); err != nil {
			return err
		}
	}
	return nil
}

// lookAll is getAll on the map.
func lookAll(m map[int]int) error {
	for i := range len(m) {
		if err := expect(m[i], i); err != nil {
			return err
		}
	}
	return nil
}

func putSmall(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareRates, func(driver context.Context) (value, limit side) {
		refs, bare := make([]raysys.Ref[int], batch), table1k(batch)
		value = side{batch, func() error {
			for i := range refs {
				refs[i] = raysys.Put(driver, i)
			}
			v, err := refs[batch-1].Get(driver)
			return errors.Join(err, expect(v, batch-1))
		}}
		limit = side{batch, func() error {
			for i := range batch {
				bare[i] = i
			}
			return nil
		}}
		return value, limit
	})
	m.limit, m.latencyOf = "store into a map[int]int", "1000 puts"
	m.note("note", "a thousand objects are alive at a time; the garbage collector frees the others while the row runs. The map allocates nothing")
	return m, err
}

const listLength = 10_000

func getList(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		list, bare := makeList.Go(driver, listLength), table1k(listLength)
		if _, err := list.Get(driver); err != nil {
			return err
		}
		m, err = compareRates(ctx, p, one(func() error {
			refs, err := list.Get(driver)
			if err != nil {
				return err
			}
			return getAll(driver, refs, 0)
		}), one(func() error { return lookAll(bare) }))
		if err != nil {
			return err
		}
		m.limit, m.latencyOf = "10,000 accesses to a map[int]int", "a get of the list and of its 10,000 values"
		// Ray's row of this name gets the list alone. Inside one process that is a get of one value.
		var h hist
		alone, err := one(func() error { _, err := list.Get(driver); return err }).loop(p.Slice/4, &h)
		m.note("list_alone_per_s", figures(alone))
		return err
	})
	return m, err
}

// submitAndWait submits a task for each of refs and waits for one of those left as often.
func submitAndWait(ctx context.Context, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = increment.Go(ctx, i)
	}
	for left := refs; len(left) > 0; {
		ready, rest, err := raysys.Wait(ctx, left, 1)
		if err != nil {
			return err
		}
		if err := expect(len(ready), 1); err != nil {
			return err
		}
		left = rest
	}
	return nil
}

func manyArgs(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareLatency, func(driver context.Context) (value, limit side) {
		bare := make(map[int]int, listLength)
		value = one(func() error {
			refs := make([]raysys.Ref[int], listLength)
			for i := range refs {
				refs[i] = raysys.Put(driver, i)
			}
			v, err := sum.Go(driver, addends{refs}).Get(driver)
			return errors.Join(err, expect(v, listLength*(listLength-1)/2))
		})
		limit = one(func() error {
			clear(bare)
			for i := range listLength {
				bare[i] = i
			}
			total := 0
			for i := range listLength {
				total += bare[i]
			}
			return expect(total, listLength*(listLength-1)/2)
		})
		return value, limit
	})
	m.limit, m.latencyOf = "10,000 stores into a map[int]int and 10,000 accesses", "10,000 puts, one task, its result"
	return m, err
}
