package raysys_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// A branch is the same turn for all but the numbering: cancellation, values, attempt and the CPU are its task's.
func TestBranchBelongsToItsTask(t *testing.T) {
	table := raysys.NewTable()
	gate, open := gated(table)
	defer close(open)
	began := make(chan struct{})
	parent := tasks.DefineIn(table, "parent", func(ctx context.Context, _ int) (string, error) {
		ctx = raysys.Branch(ctx, 3)
		v, _ := tenant.From(ctx)
		turn, own, err := core.TurnOf(ctx)
		if err != nil || !own || turn.Kind() != core.TurnTask || turn.Attempt() != 1 || turn.Name() != "parent" {
			t.Errorf("the branch's turn: %+v, %v, %v", turn, own, err)
		}
		close(began)
		_, err = gate.Go(ctx, 1).Get(ctx) // one CPU: the branch must give it back
		if ctx.Err() == nil {
			t.Error("the branch's context goes on")
		}
		return v, err
	})
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}})
	r := parent.Go(tenant.With(ctx, "acme"), 0)
	<-began
	r.Cancel()
	if _, err := nodetest.Get(t, ctx, r); raysys.PhaseOf(r) != raysys.PhaseCancelled {
		t.Errorf("the parent: %v, %v", raysys.PhaseOf(r), err)
	}
}

func TestBranchWithoutRuntime(t *testing.T) {
	ctx := context.Background()
	if raysys.Branch(ctx, 1) != ctx {
		t.Error("Branch of a context without runtime is another context")
	}
	if raysys.Rand(ctx).Uint64() == raysys.Rand(ctx).Uint64() {
		t.Error("Rand without runtime repeats itself")
	}
}

// Rand is one source per turn, and each branch has its own, the same in every run.
func TestRandOfBranches(t *testing.T) {
	draw := func() (all []uint64) {
		_, ctx := nodetest.Start(t, system.Config{Table: raysys.NewTable(), Seed: 5})
		if first, again := raysys.Rand(ctx), raysys.Rand(ctx); first != again {
			t.Error("a turn has two sources")
		}
		all = append(all, raysys.Rand(ctx).Uint64(), raysys.Rand(ctx).Uint64())
		for i := range 3 {
			all = append(all, raysys.Rand(raysys.Branch(ctx, i)).Uint64())
		}
		return all
	}
	first, second := draw(), draw()
	distinct := map[uint64]bool{}
	for i, v := range first {
		distinct[v] = true
		if second[i] != v {
			t.Errorf("draw %d differs between runs", i)
		}
	}
	if len(distinct) != len(first) {
		t.Errorf("draws repeat within a run: %v", first)
	}
}
