package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// step is what an actor of these tests sees.
type step struct {
	N   int
	Obs []float32
}

func steps(from, n int) (list []step) {
	for i := range n {
		list = append(list, step{from + i, []float32{float32(from + i), 1}})
	}
	return list
}

func numbers(list []step) (ns []int) {
	for _, s := range list {
		ns = append(ns, s.N)
	}
	return ns
}

// buffer runs f with a client of a buffer, in virtual time, strict, on three nodes.
func buffer(t *testing.T, cfg replay.Config, f func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]), opts ...testkit.Option) {
	t.Helper()
	table := raysys.NewTable()
	server := replay.DefineIn[step](table, "experience", cfg)
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(k, k.Context(), server.Get("run"))
	}, append([]testkit.Option{testkit.Table(table), testkit.Nodes(3)}, opts...)...)
}

func tables(list ...replay.Table) replay.Config { return replay.Config{Tables: list} }

// TestInsertAndSample: items come back as they were, with what is known of them; a sampler goes by priorities, and Update and Delete
// change what it takes.
func TestInsertAndSample(t *testing.T) {
	cfg := tables(
		replay.Table{Name: "best", Sampler: replay.MaxHeap, MaxSize: 100},
		replay.Table{Name: "some", MaxSize: 5, Sampler: replay.FIFO},
	)
	buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		if err := c.Insert(ctx, "best", steps(0, 3), []float64{1, 5, 3}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Sample(ctx, "best", 2)
		if err != nil || !slices.Equal(numbers(got.Steps), []int{1, 1}) || got.Len() != 2 || got.Priorities[0] != 5 || got.Probabilities[1] != 1 || got.Times[1] != 2 || got.Size != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		if o := got.Item(1)[0].Obs; !slices.Equal(o, []float32{1, 1}) {
			t.Error(o)
		}
		if err := c.Update(ctx, "best", got.Keys[:1], []float64{2}); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Sample(ctx, "best", 1); err != nil || got.Steps[0].N != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := c.Delete(ctx, "best", got.Keys); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Sample(ctx, "best", 1); err != nil || got.Steps[0].N != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := c.Insert(ctx, "some", steps(0, 8), nil); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Sample(ctx, "some", 1); err != nil || got.Steps[0].N != 3 { // the three before went
			t.Errorf("%+v, %v", got, err)
		}
		info, err := c.Info(ctx)
		if err != nil || info.Size("best") != 2 || info.Size("some") != 5 || info.Shards[0].Tables[1].Inserts != 8 || info.Shards[0].Tables[1].Bytes == 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestBadCalls: each is refused with an error that says what is wrong, and changes nothing.
func TestBadCalls(t *testing.T) {
	buffer(t, tables(replay.Table{Name: "t", MaxSize: 10}), func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		nan := 0.0
		nan /= nan
		_, noTable := c.Sample(ctx, "u", 1)
		_, none := c.Sample(ctx, "t", 0)
		_, pattern := c.Writer(replay.Sequence("t", 3, 4))
		_, other := c.Writer(replay.NStep("u", 3))
		_, next := c.Sampler("u", 1, 2).Next(ctx)
		for name, x := range map[string]struct{ got, want error }{
			"no table":       {noTable, replay.ErrNoTable},
			"insert":         {c.Insert(ctx, "u", steps(0, 1), nil), replay.ErrNoTable},
			"NaN":            {c.Insert(ctx, "t", steps(0, 2), []float64{1, nan}), replay.ErrPriority},
			"below zero":     {c.Insert(ctx, "t", steps(0, 2), []float64{1, -1}), replay.ErrPriority},
			"update":         {c.Update(ctx, "t", []uint64{1}, []float64{nan}), replay.ErrPriority},
			"lengths":        {c.Insert(ctx, "t", steps(0, 2), []float64{1}), replay.ErrConfig},
			"update lengths": {c.Update(ctx, "t", []uint64{1}, nil), replay.ErrConfig},
			"no samples":     {none, replay.ErrConfig},
			"pattern":        {pattern, replay.ErrConfig},
			"writer":         {other, replay.ErrNoTable},
			"sampler":        {next, replay.ErrNoTable},
		} {
			if !errors.Is(x.got, x.want) {
				t.Errorf("%s: %v", name, x.got)
			}
		}
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestShut: calls wait until their limiter opens, and fail with what it lacks before their deadline.
func TestShut(t *testing.T) {
	cfg := tables(
		replay.Table{Name: "min", MaxSize: 100, Limiter: replay.MinSize(5)},
		replay.Table{Name: "queue", Sampler: replay.FIFO, MaxSize: 100, MaxTimesSampled: 1, Limiter: replay.Queue(3)},
	)
	buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		if err := c.Insert(ctx, "min", steps(0, 4), nil); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, 40*time.Second)
		defer cancel()
		_, err := c.Sample(short, "min", 1)
		var shut *replay.ShutError
		if !errors.As(err, &shut) || shut.Table != "min" || shut.Insert || !shut.Items || shut.Has != 4 || shut.Needs != 5 || short.Err() != nil {
			t.Errorf("%v, %+v; the deadline passed: %v", err, shut, short.Err())
		}
		got := make(chan replay.Samples[step], 1)
		go func() {
			s, err := c.Sample(ctx, "min", 3)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		k.Advance(25 * time.Second) // more than a call may take
		if err := c.Insert(ctx, "min", steps(4, 1), nil); err != nil {
			t.Fatal(err)
		}
		if s := <-got; s.Len() != 3 || s.Size != 5 {
			t.Errorf("%+v", s)
		}

		insert, cancel := context.WithTimeout(ctx, 25*time.Second)
		defer cancel()
		err = c.Insert(insert, "queue", steps(0, 5), nil)
		if !errors.As(err, &shut) || shut.Table != "queue" || !shut.Insert || shut.Has != 3 || shut.Needs != 3 || shut.Done != 3 || !strings.Contains(err.Error(), "Queue(3) is shut") {
			t.Errorf("%v, %+v", err, shut)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Insert(ctx, "queue", steps(5, 4), nil) }()
		k.Advance(15 * time.Second)
		var taken []int
		for range 7 {
			s, err := c.Sample(ctx, "queue", 1)
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, s.Steps[0].N)
		}
		if err := <-ended; err != nil || !slices.Equal(taken, []int{0, 1, 2, 5, 6, 7, 8}) { // each once
			t.Error(taken, err)
		}
	})
}

// TestPatterns: a Writer makes the items that its patterns say, of one stream of steps, whatever the batches are.
func TestPatterns(t *testing.T) {
	cfg := tables(
		replay.Table{Name: "n", Sampler: replay.FIFO, MaxSize: 100000, MaxTimesSampled: 1},
		replay.Table{Name: "seq", Sampler: replay.FIFO, MaxSize: 100000, MaxTimesSampled: 1},
		replay.Table{Name: "all", Sampler: replay.FIFO, MaxSize: 100000, MaxTimesSampled: 1},
	)
	for _, width := range []int{1, 3000, 30_000} { // of an observation: batches of many episodes, of one, of some steps; the last has large items
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
				w, err := c.Writer(replay.NStep("n", 3), replay.Sequence("seq", 4, 2), replay.Episode("all"))
				if err != nil {
					t.Fatal(err)
				}
				want := map[string][]string{}
				item := func(table string, from, to int) {
					want[table] = append(want[table], fmt.Sprint(numbers(steps(from, to-from))))
				}
				at := 0
				for episode := range 12 {
					n := []int{7, 1, 4, 0, 5, 10}[episode%6]
					for i := range n {
						s := step{at + i, make([]float32, width)}
						s.Obs[width-1] = float32(at + i)
						if err := w.Append(ctx, s); err != nil {
							t.Fatal(err)
						}
					}
					if err := w.End(ctx); err != nil {
						t.Fatal(err)
					}
					for i := range n {
						item("n", at+i, at+min(n, i+3))
					}
					covered := 0
					for i := 0; i+4 <= n; i += 2 {
						item("seq", at+i, at+i+4)
						covered = i + 4
					}
					if covered < n {
						item("seq", at+max(0, covered-2), at+n)
					}
					if n > 0 {
						item("all", at, at+n)
					}
					at += n
				}
				if err := w.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				for table, items := range want {
					got, err := c.Sample(ctx, table, len(items))
					if err != nil {
						t.Fatal(err)
					}
					for i, want := range items {
						if g := fmt.Sprint(numbers(got.Item(i))); g != want {
							t.Fatalf("item %d of %s is %s, want %s", i, table, g, want)
						}
						for _, s := range got.Item(i) {
							if len(s.Obs) != width || s.Obs[width-1] != float32(s.N) {
								t.Fatalf("item %d of %s has another observation of step %d", i, table, s.N)
							}
						}
					}
				}
				if info, err := c.Info(ctx); err != nil || info.Size("n")+info.Size("seq")+info.Size("all") != 0 {
					t.Errorf("%+v, %v", info, err)
				}
			})
		})
	}
}

// TestSampler: samples that were asked for ahead come in order, and what is short of n is filled up.
func TestSampler(t *testing.T) {
	cfg := tables(replay.Table{Name: "t", Sampler: replay.FIFO, MaxSize: 1000, MaxTimesSampled: 1, Limiter: replay.Queue(8)})
	buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		done := make(chan error, 1)
		go func() { done <- c.Insert(ctx, "t", steps(0, 100), nil) }()
		s := c.Sampler("t", 10, 2)
		var got []int
		for range 8 {
			b, err := s.Next(ctx)
			if err != nil || b.Len() != 10 {
				t.Fatal(b.Len(), err)
			}
			got = append(got, numbers(b.Steps)...)
		}
		s.Close()
		slices.Sort(got)
		if len(slices.Compact(got)) != 80 {
			t.Error("a step was sampled twice:", got)
		}
		for n := 0; ; {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return
			default:
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			if b, err := c.Sample(short, "t", 1); err == nil {
				n += b.Len()
			}
			cancel()
		}
	})
}

// TestLostShard: while a shard's node is killed actors and learner go on with the others, and the shard comes back.
func TestLostShard(t *testing.T) {
	cfg := tables(replay.Table{Name: "t", MaxSize: 10_000, Limiter: replay.MinSize(20)})
	cfg.Shards = 3
	buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		insert := func(n int) {
			t.Helper()
			for i := range n {
				if err := c.Insert(ctx, "t", steps(i*10, 10), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		insert(30)
		lost := 0
		for node := 1; node <= 3 && lost == 0; node++ { // until one has a shard
			before, err := c.Info(ctx)
			if err != nil || before.Size("t") < 300 {
				t.Fatalf("%+v, %v", before, err)
			}
			k.Cluster().Kill(node)
			insert(6) // where all shards were on that node, none could be sampled: now one has 20 items at least
			for range 20 {
				if s, err := c.Sample(ctx, "t", 32); err != nil || s.Len() != 32 {
					t.Fatal(s.Len(), err)
				}
				insert(1)
			}
			k.Cluster().Restart(node)
			k.Cluster().Ready()
			insert(30)
			after, err := c.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range after.Shards {
				if s.Run != before.Shards[i].Run {
					lost++
				}
			}
		}
		if lost == 0 {
			t.Error("no shard was lost")
		}
		if s, err := c.Sample(ctx, "t", 200); err != nil || s.Len() != 200 {
			t.Error(s.Len(), err)
		}
	})
}

// TestCheckpoint: a buffer comes back as it was, over a new start of its grains; another server's checkpoint is refused, and a missing one.
func TestCheckpoint(t *testing.T) {
	table := raysys.NewTable()
	cfg := tables(
		replay.Table{Name: "t", Sampler: replay.FIFO, MaxSize: 100, MaxTimesSampled: 2, Limiter: replay.SampleToInsertRatio(1, 4, 20)},
		replay.Table{Name: "e", Sampler: replay.FIFO, MaxSize: 100},
	)
	cfg.Shards = 2
	server := replay.DefineIn[step](table, "experience", cfg)
	other := replay.DefineIn[[]float64](table, "other", cfg)
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		ctx, c := k.Context(), server.Get("run")
		w, err := c.Writer(replay.NStep("t", 2), replay.Episode("e"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			s := steps(i, 1)[0]
			if i >= 15 {
				s.Obs = make([]float32, 30_000) // a large item
			}
			err = errors.Join(err, w.Append(ctx, s))
			if i%5 == 4 {
				err = errors.Join(err, w.End(ctx), w.Flush(ctx))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Checkpoint(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		all := func() string {
			var out []string
			for _, table := range []string{"t", "e"} {
				info, err := c.Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				s, err := c.Sample(ctx, table, info.Size(table))
				if err != nil {
					t.Fatal(err)
				}
				for i := range s.Len() {
					out = append(out, fmt.Sprint(table, numbers(s.Item(i)), s.Times[i], s.Priorities[i]))
				}
			}
			slices.Sort(out)
			return strings.Join(out, "\n")
		}
		want := all()
		if err := c.Insert(ctx, "t", steps(100, 3), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Checkpoint(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Restore(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			if got := all(); got != want {
				t.Errorf("restored\n%s\nwant\n%s", got, want)
			}
		}
		if err := c.Restore(ctx, "none"); !errors.Is(err, raysys.ErrNotFound) {
			t.Error(err)
		}
		if err := other.Get("run").Restore(ctx, "a"); !errors.Is(err, raysys.ErrNotFound) {
			t.Error(err)
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(_ int, cfg *system.Config) {
		if cfg.Objects.Spill == "" {
			cfg.Objects.Spill = t.TempDir()
		}
	}))
}

// TestShutIsSaid: while a limiter is shut the driver's log says which, and so do explain and Info.
func TestShutIsSaid(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	cfg := tables(replay.Table{Name: "min", MaxSize: 100, Limiter: replay.MinSize(5)})
	buffer(t, cfg, func(k *testkit.Kit, ctx context.Context, c *replay.Client[step]) {
		done := make(chan error, 1)
		go func() {
			_, err := c.Sample(ctx, "min", 1)
			done <- err
		}()
		k.Advance(12 * time.Second)
		const want = `table "min" cannot be sampled: its limiter MinSize(5) is shut in shard 0: it has 0 items and needs 5`
		if said := logs.FilterMessage("a call to a replay buffer waits").All(); len(said) != 1 || !strings.Contains(fmt.Sprint(said[0].ContextMap()["reason"]), want) {
			t.Errorf("the log says %v", logs.All())
		}
		if s, err := k.Cluster().Node(0).Explain(ctx, "experience/run/0"); err != nil || !strings.Contains(s.String(), want) {
			t.Errorf("explain says %v, %v", s, err)
		}
		if info, err := c.Info(ctx); err != nil || info.Shards[0].Tables[0].WaitingSamples != 1 || !strings.Contains(info.Shards[0].Tables[0].Shut, want) {
			t.Errorf("%+v, %v", info, err)
		}
		if err := c.Insert(ctx, "min", steps(0, 5), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}, testkit.Each(func(i int, cfg *system.Config) {
		if i == 0 {
			cfg.Logger = zap.New(core)
		}
	}))
}
