package limit_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/limit"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	counters = grains.Define[struct{ n int }]("limit_test.counter")
	count    = grains.Method(counters, "count", func(c *struct{ n int }, _ context.Context, d int) (int, error) {
		c.n += d
		return c.n, nil
	})

	nap = tasks.Define("limit_test.nap", func(ctx context.Context, limited int) (int, error) {
		if limited > 0 {
			p, err := limit.Take(ctx, limit.AtMost("bench.naps", limited), "", 1)
			if err != nil {
				return 0, err
			}
			defer p.Release()
		}
		<-time.After(10 * time.Millisecond) // the work
		return limited, nil
	})
)

// callers runs f n times on each of several goroutines.
func callers(b *testing.B, ctx context.Context, goroutines, n int, f func(ctx context.Context) error) time.Duration {
	var done sync.WaitGroup
	began := time.Now()
	for i := range goroutines {
		ctx := raysys.Branch(ctx, i)
		done.Go(func() {
			for range n {
				if err := f(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	return time.Since(began)
}

// BenchmarkTakeAndRelease measures permits and calls of one grain in turn: ratio is permits by calls, the median of
// the rounds.
func BenchmarkTakeAndRelease(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(map[int]string{1: "alone", 64: "of64"}[goroutines], func(b *testing.B) {
			ctx := testkit.New(b, testkit.Loose()).Context()
			l := limit.AtMost("bench", 1000)
			per := max(b.N/goroutines, 1)
			var ratios []float64
			for range 5 {
				calls := callers(b, ctx, goroutines, per, func(ctx context.Context) error {
					_, err := count.Call(ctx, counters.Get(""), 1).Get(ctx)
					return err
				})
				permits := callers(b, ctx, goroutines, per, func(ctx context.Context) error {
					p, err := limit.Take(ctx, l, "", 1)
					if err == nil {
						p.Release()
					}
					return err
				})
				ratios = append(ratios, calls.Seconds()/permits.Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[2], "ratio")
		})
	}
}

// BenchmarkTasks runs 2,000 tasks of 10 ms under a limit of as many as there are CPUs, and without: ratio is the time
// without by that with it.
func BenchmarkTasks(b *testing.B) {
	cpus := runtime.NumCPU()
	ctx := testkit.New(b, testkit.Loose(), testkit.CPU(float64(cpus))).Context()
	run := func(limited int) time.Duration {
		began := time.Now()
		refs := make([]raysys.Ref[int], 2000)
		for i := range refs {
			refs[i] = nap.Go(ctx, limited)
		}
		if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	run(cpus)
	var ratios []float64
	for b.Loop() {
		ratios = append(ratios, run(0).Seconds()/run(cpus).Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
