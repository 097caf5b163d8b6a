package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// The row of figure 8a of the paper (Ray, OSDI 2018): tasks that each need one object, which is on one of two nodes,
// placed with a look at where it is and without.

// sizesOfLocality is how large the objects are, and how much is moved.
type sizesOfLocality struct {
	sizes []int
	tasks int // of each size, each with an object of its own
	// most bounds the bytes of the objects of one size. Tasks of large objects are fewer.
	most int
	// once bounds the bytes of the objects that are there at the same time.
	once int
}

var figure8a = sizesOfLocality{sizes: []int{100 << 10, 1 << 20, 10 << 20, 100 << 20}, tasks: 1000, most: 16 << 30, once: 400 << 20}

// localityRow is in the catalogue of the tier.
func localityRow() Row {
	return Row{
		Name: "locality", Unit: "tasks/s", Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return locality(ctx, p, figure8a) },
		Operation: "1000 tasks (160 of 100 MiB), each with an object of 100 KiB to 100 MiB on one of two nodes, beside the same placed without a look at it; no sharing on the host",
	}
}

var (
	makeObject = tasks.DefineIn(functions, "make-object", func(_ context.Context, n int) ([]byte, error) {
		b := make([]byte, n)
		for i := 0; i < n; i += 512 {
			b[i] = byte(i>>9) | 1
		}
		return b, nil
	})
	readObject = tasks.DefineIn(functions, "read-object", func(_ context.Context, b []byte) (int, error) {
		n := 0
		for i := 0; i < len(b); i += 4096 {
			if b[i] != 0 {
				n++
			}
		}
		return n, nil
	})
)

func locality(ctx context.Context, p Plan, sizes sizesOfLocality) (m measured, err error) {
	all := map[string]any{}
	err = withObjects(ctx, p, 2, options{NoSharing: true}, func(driver context.Context, c *cluster) error {
		for _, size := range sizes.sizes {
			s := localitySize{size: size, n: max(min(sizes.tasks, sizes.most/size), 2), batch: max(min(sizes.once/size, 1000), 2), workers: c.names}
			if err := s.measure(driver); err != nil {
				return fmt.Errorf("objects of %d bytes: %w", size, err)
			}
			all[strconv.Itoa(size>>10)+"_KiB"] = s.figures()
			m.value, m.limitValue = s.sides[0].rate(), s.sides[1].rate()
			m.latency = &s.sides[0].alone
		}
		return nil
	})
	m.limit, m.latencyOf = "the same tasks, placed by raysys.Spread", "one task at a time, submitted where its object is not"
	m.note("sizes", all)
	m.note("nodes", "the driver without CPUs of its own, two worker processes, the bytes through TCP")
	return m, err
}

// localitySize measures one size.
type localitySize struct {
	size, n, batch int
	workers        []string // two
	sides          [2]localitySide
}

// localitySide has the figures of the tasks that were placed in one of the two ways.
type localitySide struct {
	tasks int
	took  time.Duration // of the batches
	batch hist          // of a task in a batch: from the submission of the first to its result
	alone hist          // of a task that is the only one
}

func (s *localitySide) rate() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(s.tasks) / s.took.Seconds()
}

// measure runs the tasks of both sides by turns, batch by batch, every fifth batch one task at a time.
func (s *localitySize) measure(ctx context.Context) error {
	draw := rand.New(rand.NewPCG(8, uint64(s.size)))
	for done, round := 0, 0; done < s.n; round++ {
		n := min(s.batch, s.n-done)
		done += n
		for i := range s.sides {
			refs, err := s.objects(ctx, n, draw)
			if err != nil {
				return err
			}
			read := readObject
			if i == 1 {
				read = readObject.With(raysys.Placement(raysys.Spread))
			}
			if err := s.sides[i].run(ctx, read, refs, s.size, round%5 == 4 || done == s.n); err != nil {
				return err
			}
			for _, r := range refs {
				r.Release()
			}
		}
	}
	return nil
}

// objects makes n objects, each on a node drawn at random.
func (s *localitySize) objects(ctx context.Context, n int, draw *rand.Rand) ([]raysys.Ref[[]byte], error) {
	refs := make([]raysys.Ref[[]byte], n)
	for i := range refs {
		refs[i] = makeObject.With(raysys.Label(workerLabel, s.workers[draw.IntN(2)])).Go(ctx, s.size)
	}
	ready, rest, err := raysys.Wait(ctx, refs, n)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d of %d objects", len(ready), n)
	}
	return refs, err
}

// run submits a task for each of refs: all at once, and then a few alone.
func (s *localitySide) run(ctx context.Context, read tasks.Task[[]byte, int], refs []raysys.Ref[[]byte], size int, alone bool) error {
	if alone {
		few := min(len(refs)/2, 20)
		for _, r := range refs[:few] {
			start := time.Now()
			if err := localityResult(ctx, read.On(ctx, r), size); err != nil {
				return err
			}
			s.alone.add(time.Since(start))
		}
		refs = refs[few:]
	}
	start := time.Now()
	sums := make([]raysys.Ref[int], len(refs))
	for i, r := range refs {
		sums[i] = read.On(ctx, r)
	}
	for _, r := range raysys.AsCompleted(ctx, sums) {
		if err := localityResult(ctx, r, size); err != nil {
			return err
		}
		s.batch.add(time.Since(start))
	}
	s.took += time.Since(start)
	s.tasks += len(refs)
	return nil
}

func localityResult(ctx context.Context, r raysys.Ref[int], size int) error {
	v, err := r.Get(ctx)
	if err != nil {
		return err
	}
	return expect(v, (size+4095)/4096)
}

func (s *localitySize) figures() map[string]any {
	d := map[string]any{"tasks": s.n, "in_flight": min(s.batch, s.n)}
	for i, name := range []string{"aware", "unaware"} {
		side := &s.sides[i]
		d[name] = map[string]any{
			"tasks_per_s": figures(side.rate()), "batch_p50_us": figures(us(side.batch.quantile(0.5))),
			"alone_p50_us": figures(us(side.alone.quantile(0.5))), "alone_p99_us": figures(us(side.alone.quantile(0.99))),
		}
	}
	if u := s.sides[1].rate(); u > 0 {
		d["ratio"] = figures(s.sides[0].rate() / u)
	}
	return d
}
