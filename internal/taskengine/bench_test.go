package taskengine_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

func benchNode(b *testing.B) (tasks.Task[int, int], context.Context) {
	table := raysys.NewTable()
	square := tasks.DefineIn(table, "square", func(ctx context.Context, x int) (int, error) { return x * x, nil })
	_, ctx := nodetest.Node(b, table, 0)
	return square, ctx
}

// 1000 tasks submitted one by one, then 1000 results.
func BenchmarkAsync(b *testing.B) {
	square, ctx := benchNode(b)
	refs := make([]raysys.Ref[int], 1000)
	for b.Loop() {
		for i := range refs {
			refs[i] = square.Go(ctx, i)
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

// The same in bulk.
func BenchmarkMap(b *testing.B) {
	square, ctx := benchNode(b)
	xs := make([]int, 1000)
	for b.Loop() {
		for _, r := range square.Map(ctx, xs) {
			if _, err := r.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

// One task after the other.
func BenchmarkSync(b *testing.B) {
	square, ctx := benchNode(b)
	for b.Loop() {
		if _, err := square.Go(ctx, 3).Get(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func benchPair(b *testing.B) (*functions, context.Context) {
	f := newFunctions()
	d, w := newHost(b, "driver", f.table, 0), newHost(b, "worker", f.table, 2)
	join(b, d, w)
	return f, d.ctx()
}

// The same from a driver to a worker, over the tests' link in memory.
func BenchmarkFarAsync(b *testing.B) {
	f, ctx := benchPair(b)
	refs := make([]raysys.Ref[int], 1000)
	for b.Loop() {
		for i := range refs {
			refs[i] = f.square.Go(ctx, i)
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

func BenchmarkFarMap(b *testing.B) {
	f, ctx := benchPair(b)
	xs := make([]int, 1000)
	for b.Loop() {
		for _, r := range f.square.Map(ctx, xs) {
			if _, err := r.Get(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

func BenchmarkFarSync(b *testing.B) {
	f, ctx := benchPair(b)
	for b.Loop() {
		if _, err := f.square.Go(ctx, 3).Get(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
