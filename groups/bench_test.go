package groups_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// BenchmarkGroups makes groups of two bundles, waits for them and removes them, 64 at a time, in one process.
func BenchmarkGroups(b *testing.B) {
	n, err := system.New(system.Config{Table: raysys.NewTable(), Resources: raysys.Resources{CPU: 1000}})
	if err == nil {
		err = n.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close(context.Background())
	b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		ctx := n.Context(b.Context())
		for pb.Next() {
			g, err := groups.Create(ctx, placement.Pack, cpus(1, 1))
			if err == nil {
				err = g.Wait(ctx)
			}
			if err == nil {
				err = g.Remove(ctx)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "groups/s")
}
