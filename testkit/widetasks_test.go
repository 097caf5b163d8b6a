package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestPlainTasksBesideWideOnes: tasks of one CPU do not wait behind those of two at one node while another has a CPU free.
func TestPlainTasksBesideWideOnes(t *testing.T) {
	table := raysys.NewTable()
	rest := tasks.DefineIn(table, "rest", func(ctx context.Context, d time.Duration) (int, error) {
		select {
		case <-time.After(d):
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		k.Cluster().Ready()
		for range 4 {
			rest.With(raysys.CPU(2), raysys.OnNode("n1")).Go(ctx, 10*time.Second)
		}
		var plain []raysys.Ref[int]
		for range 8 {
			plain = append(plain, rest.Go(ctx, time.Second))
		}
		began := time.Now()
		if _, err := raysys.GetAll(ctx, plain).Values(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > long.Form(9*time.Second, 6*time.Second) { // the first wide one ends after 10 s
			t.Errorf("eight tasks of 1 s took %v beside two CPUs without other work, want 4 to 5 s", took)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU = 2
		}
	}))
}
