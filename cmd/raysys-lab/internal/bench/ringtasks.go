package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// The row of figure 12b of the paper (Ray, OSDI 2018): a ring all-reduce made of tasks, with a delay added to the placement of
// each task. What it costs is one delay for each step of the ring, on top of the time in which the bytes move.

// ringOfTasks is how much is reduced, and how slowly tasks are placed.
type ringOfTasks struct {
	sizes  []int           // bytes of a rank's vector
	delays []time.Duration // added before the node of a task is chosen; the first is the row's value
}

var figure12b = ringOfTasks{
	sizes:  []int{1_000_000, 10_000_000, 40_000_000, 100_000_000},
	delays: []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond},
}

// ringRow is in the catalogue of the tier.
func ringRow() Row {
	return Row{
		Name: "ring_tasks", Unit: Latency, Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return ringTasks(ctx, p, figure12b) },
		Operation: "all-reduce of 1, 10, 40 and 100 MB (--size) over 4 processes by a ring of tasks, with 0, 1, 5 and 10 ms added to the placement of each; no sharing on the host",
	}
}

// ringPart is a range of the vector of a rank.
type ringPart struct{ Rank, From, To int }

// element is what a rank adds to the sum. Sums of them are exact in a float32.
func (p ringPart) element(i int) float32 { return float32(i * (p.Rank + 1) % 1000) }

var (
	ringChunk = tasks.DefineIn(functions, "ring-chunk", func(_ context.Context, p ringPart) ([]float32, error) {
		chunk := make([]float32, p.To-p.From)
		for i := range chunk {
			chunk[i] = p.element(p.From + i)
		}
		return chunk, nil
	})
	ringAdd = tasks.Define2In(functions, "ring-add", func(_ context.Context, own, in []float32) ([]float32, error) {
		if len(own) != len(in) {
			return nil, fmt.Errorf("a chunk of %d elements comes to one of %d", len(in), len(own))
		}
		total := make([]float32, len(own))
		for i := range total {
			total[i] = own[i] + in[i]
		}
		return total, nil
	})
	ringPass = tasks.DefineIn(functions, "ring-pass", func(_ context.Context, in []float32) ([]float32, error) { return in, nil })
	// ringWrong counts the elements of a chunk that are not the sum over all ranks.
	ringWrong = tasks.Define2In(functions, "ring-wrong", func(_ context.Context, p ringPart, total []float32) (int, error) {
		wrong := max(p.To-p.From-len(total), 0)
		for i, v := range total {
			for p.Rank = range ranks {
				v -= p.element(p.From + i)
			}
			if v != 0 {
				wrong++
			}
		}
		return wrong, nil
	})
)

// ringTasks measures each size with all delays, beside the collective of as many bytes over the same processes.
func ringTasks(ctx context.Context, p Plan, s ringOfTasks) (m measured, err error) {
	if p.Size > 0 {
		s.sizes = []int{int(p.Size)}
	}
	all := map[string]any{}
	for _, size := range s.sizes {
		r := ringRun{ringOfTasks: s, elements: size / 4 / ranks * ranks, rounds: make([][]float64, len(s.delays))}
		if err := withObjects(ctx, p, ranks, options{NoSharing: true}, r.measure); err != nil {
			return m, fmt.Errorf("%d bytes: %w", size, err)
		}
		m.latency, m.rounds, m.limits = &r.took, r.rounds[0], r.limits
		m.value, m.limitValue = median(m.rounds), median(m.limits)
		took := map[string]any{"collective": figures(m.limitValue)}
		for i, delay := range s.delays {
			took[delay.String()] = figures(median(r.rounds[i]))
		}
		all[strconv.Itoa(size)+"_bytes"] = took
	}
	m.limit, m.latencyOf = "the collective AllReduce of as many bytes over the same processes", "one all-reduce without an added delay"
	m.note("us_by_added_delay", all)
	m.note("steps", 2*(ranks-1))
	m.note("nodes", "drivers without CPUs of their own, which place the tasks, one for each delay, and 4 worker processes; the bytes through TCP")
	return m, nil
}

// ringRun measures one size.
type ringRun struct {
	ringOfTasks
	elements int
	took     hist        // without an added delay
	rounds   [][]float64 // of each delay, in microseconds
	limits   []float64
}

// measure has a driver for each delay, and measures them in turn. The first round is not counted.
func (r *ringRun) measure(driver context.Context, c *cluster) error {
	return c.withDelays(driver, r.delays, nil, func(drivers []context.Context) error {
		rings := make([]*taskRing, len(drivers))
		for i, d := range drivers {
			var err error
			if rings[i], err = newTaskRing(d, c, r.elements); err != nil {
				return err
			}
		}
		const reduces = 3 // of each collective; the first has connections to make
		for round := -1; round < c.plan.Rounds; round++ {
			for i, d := range drivers {
				took, err := rings[i].once(d)
				switch {
				case err != nil:
					return fmt.Errorf("%v added: %w", r.delays[i], err)
				case round < 0:
					continue
				case i == 0:
					r.took.add(took)
				}
				r.rounds[i] = append(r.rounds[i], us(took))
			}
			h, err := c.reduce(driver, "ring-"+strconv.Itoa(round), reduces, r.elements)
			if err != nil {
				return fmt.Errorf("the collective: %w", err)
			}
			if round >= 0 {
				r.limits = append(r.limits, us(h.quantile(0.5)))
			}
			runtime.GC() // what the drivers held of this round may go from the workers
			for _, w := range c.names {
				if _, err := tidy.With(on(w)...).Go(driver, 0).Get(driver); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// withDelays runs f with a further driver for each of delays, which is added to the placement of its tasks.
func (c *cluster) withDelays(ctx context.Context, delays []time.Duration, drivers []context.Context, f func([]context.Context) error) error {
	if len(delays) == 0 {
		return f(drivers)
	}
	p, name := c.plan, "driver-"+delays[0].String()
	p.Node = member(p.Node, c.name, p.Consul, name, system.Driver)
	p.Node.SchedulingDelay = delays[0]
	c.options.apply(&p.Node, name)
	return withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		return c.withDelays(ctx, delays[1:], append(drivers, driver), f)
	})
}

// chunks are those that each rank has: the first index is the rank's.
type chunks [ranks][ranks]raysys.Ref[[]float32]

// taskRing has the vectors of the ranks, each on a worker of its own.
type taskRing struct {
	elements int
	at       [ranks]raysys.Option
	own      chunks
}

func newTaskRing(ctx context.Context, c *cluster, elements int) (*taskRing, error) {
	r := &taskRing{elements: elements}
	var refs []raysys.Ref[[]float32]
	for rank := range ranks {
		r.at[rank] = raysys.Label(workerLabel, c.names[rank])
		for chunk := range ranks {
			r.own[rank][chunk] = ringChunk.With(r.at[rank]).Go(ctx, r.part(rank, chunk))
			refs = append(refs, r.own[rank][chunk])
		}
	}
	_, _, err := raysys.Wait(ctx, refs, len(refs))
	return r, err
}

func (r *taskRing) part(rank, chunk int) ringPart {
	n := r.elements / ranks
	return ringPart{rank, chunk * n, (chunk + 1) * n}
}

// once submits the tasks of one all-reduce, waits for them, and looks at every element of the sum at every rank.
func (r *taskRing) once(ctx context.Context) (took time.Duration, err error) {
	begin := time.Now()
	sums, made := r.submit(ctx)
	if _, _, err := raysys.Wait(ctx, made, len(made)); err != nil {
		return 0, err
	}
	took = time.Since(begin)
	for rank := range ranks {
		for chunk := range ranks {
			wrong, err := ringWrong.With(r.at[rank]).On(ctx, raysys.Ready(r.part(rank, chunk)), sums[rank][chunk]).Get(ctx)
			if err == nil && wrong > 0 {
				err = fmt.Errorf("%d elements of chunk %d are wrong at rank %d", wrong, chunk, rank)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	for _, ref := range made {
		ref.Release()
	}
	return took, nil
}

// submit goes around the ring twice: in the first round each rank adds what comes from the one before it to its own, so that it has
// the sum of one chunk then; in the second the sums are passed on.
func (r *taskRing) submit(ctx context.Context) (has chunks, made []raysys.Ref[[]float32]) {
	has = r.own
	for step := range 2 * (ranks - 1) {
		for rank := range ranks {
			chunk, before := (rank-1-step+2*ranks)%ranks, (rank+ranks-1)%ranks
			if in := has[before][chunk]; step < ranks-1 {
				has[rank][chunk] = ringAdd.With(r.at[rank]).On(ctx, r.own[rank][chunk], in)
			} else {
				has[rank][chunk] = ringPass.With(r.at[rank]).On(ctx, in)
			}
			made = append(made, has[rank][chunk])
		}
	}
	return has, made
}
