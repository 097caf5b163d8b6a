package tasks_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })

var fib tasks.Task[int, int]

func init() {
	fib = tasks.Define("fib", func(ctx context.Context, n int) (int, error) {
		if n < 2 {
			return n, nil
		}
		a, b := fib.Go(ctx, n-1), fib.Go(ctx, n-2)
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	})
}

func start(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, n.Context(context.Background())
}

func TestSquare(t *testing.T) {
	_, ctx := start(t, system.Config{})
	if v, err := square.Go(ctx, 7).Get(ctx); v != 49 || err != nil {
		t.Fatal(v, err)
	}
	if v, err := fib.Go(ctx, 20).Get(ctx); v != 6765 || err != nil {
		t.Fatal(v, err)
	}
}

func BenchmarkAsync(b *testing.B) {
	_, ctx := start(b, system.Config{})
	refs := make([]raysys.Ref[int], 1000)
	for b.Loop() {
		for i := range refs {
			refs[i] = square.Go(ctx, i)
		}
		for _, r := range refs {
			r.Get(ctx)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

func BenchmarkMap(b *testing.B) {
	_, ctx := start(b, system.Config{})
	xs := make([]int, 1000)
	for b.Loop() {
		for _, r := range square.Map(ctx, xs) {
			r.Get(ctx)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mtasks/s")
}

func BenchmarkSync(b *testing.B) {
	_, ctx := start(b, system.Config{})
	for b.Loop() {
		square.Go(ctx, 3).Get(ctx)
	}
}
