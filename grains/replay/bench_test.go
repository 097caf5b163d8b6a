package replay

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// bare is one shard's tables without a grain: batches are encoded and decoded as by a Client, and calls are those of functions.
type bare struct {
	c *Client[observation]
	s *shard
}

type observation struct{ X []byte }

const (
	benchSize   = 1 << 10 // bytes of an item
	benchInsert = 1024    // items of one call
	benchSample = 256
)

// benchmark measures n items by a Client, whose grain is in this process, and by the bare table, in turn.
func benchmark(b *testing.B, n int, client func(ctx context.Context, c *Client[observation]) error, table func(x bare) error) {
	t := raysys.NewTable()
	server := DefineIn[observation](t, "bench", Config{Tables: []Table{{Name: "t", Sampler: Prioritized(0.6), MaxSize: 100_000}}})
	ctx := testkit.New(b, testkit.Table(t), testkit.Loose()).Context()
	c := server.Get("run")
	x := bare{c, &shard{}}
	x.s.begin(ctx, server.d.cfg, 0)
	items, priorities := observations()
	for range 200 { // the tables are full
		if err := c.Insert(ctx, "t", items, priorities); err != nil {
			b.Fatal(err)
		}
		if err := x.insert(items, priorities); err != nil {
			b.Fatal(err)
		}
	}
	var took [2]time.Duration
	loops := 0
	for b.Loop() {
		begin := time.Now()
		if err := client(ctx, c); err != nil {
			b.Fatal(err)
		}
		took[0] += time.Since(begin)
		begin = time.Now()
		if err := table(x); err != nil {
			b.Fatal(err)
		}
		took[1] += time.Since(begin)
		loops++
	}
	made := float64(n * loops)
	b.ReportMetric(made/took[0].Seconds(), "client-items/s")
	b.ReportMetric(made/took[1].Seconds(), "bare-items/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
}

func observations() (items []observation, priorities []float64) {
	for range benchInsert {
		items = append(items, observation{make([]byte, benchSize)})
		priorities = append(priorities, 0.1+rand.Float64())
	}
	return items, priorities
}

func (x bare) insert(items []observation, priorities []float64) error {
	w := x.c.b.sending()
	for i := range items {
		if err := w.step(unsafe.Pointer(&items[i])); err != nil {
			return err
		}
		n := len(w.batch.Ends)
		w.item(0, priorities[i], n-1, n)
		if w.full() || i == len(items)-1 {
			batch := w.take()
			x.s.advance(&inserting{batch: batch, chunk: &chunk{data: batch.Data, ends: batch.Ends}})
		}
	}
	return nil
}

func (x bare) sample() error {
	var got collected
	x.c.b.take(context.Background(), &got, 0, 0, x.s.take(x.s.tables[0], benchSample))
	_, err := samplesOf[observation](x.c.b.d, got, nil)
	return err
}

func BenchmarkInsert(b *testing.B) {
	items, priorities := observations()
	benchmark(b, benchInsert, func(ctx context.Context, c *Client[observation]) error {
		return c.Insert(ctx, "t", items, priorities)
	}, func(x bare) error { return x.insert(items, priorities) })
}

func BenchmarkSample(b *testing.B) {
	benchmark(b, benchSample, func(ctx context.Context, c *Client[observation]) error {
		_, err := c.Sample(ctx, "t", benchSample)
		return err
	}, bare.sample)
}
