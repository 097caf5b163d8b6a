package tasks_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

func benchNode(b *testing.B) (tasks.Task[int, int], context.Context) {
	table := raysys.NewTable()
	square := tasks.DefineIn(table, "square", func(ctx context.Context, x int) (int, error) { return x * x, nil })
	_, ctx := node(b, table, 0)
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
