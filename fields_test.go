package raysys_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var tenant = raysys.NewContextKey[string]("tenant")

var depth = raysys.NewContextKey[int]("depth")

// C2: job, namespace, node and attempt are known to every turn.
func TestTurnFields(t *testing.T) {
	table := raysys.NewTable()
	type fields struct {
		Job       raysys.JobID
		Namespace string
		Node      raysys.NodeID
		Attempt   int
		Kind      core.TurnKind
	}
	of := func(ctx context.Context) fields {
		turn, _, err := core.TurnOf(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j := turn.Job()
		return fields{j.ID, j.Namespace, j.Node, turn.Attempt(), turn.Kind()}
	}
	fail := true
	seen := make(chan fields, 4)
	task := tasks.Define0In(table, "task", func(ctx context.Context) (int, error) {
		seen <- of(ctx)
		if fail {
			fail = false
			return 0, context.DeadlineExceeded
		}
		return 1, nil
	}).With(raysys.RetryIf(func(error) bool { return true }), raysys.Backoff(0, 0))
	n, ctx := nodetest.Start(t, system.Config{Table: table, Name: "n1", Namespace: "shop", Seed: 9})
	if _, err := nodetest.Get(t, ctx, task.Go(ctx)); err != nil {
		t.Fatal(err)
	}
	job := core.SeededJob(9)
	want := []fields{{job, "shop", "n1", 1, core.TurnTask}, {job, "shop", "n1", 2, core.TurnTask}, {job, "shop", "n1", 0, core.TurnRoot}}
	if diff := cmp.Diff(want, []fields{<-seen, <-seen, of(ctx)}); diff != "" {
		t.Error(diff)
	}
	if n.Job() != job || n.Namespace() != "shop" || n.Name() != "n1" {
		t.Errorf("the node says %v %v %v", n.Job(), n.Namespace(), n.Name())
	}
}

// Declared values travel to all that is submitted under them, others do not; inner ones hide outer ones.
func TestValuesTravel(t *testing.T) {
	type plain struct{}
	table := raysys.NewTable()
	type seen struct {
		Tenant string
		Depth  int
		Plain  bool
	}
	look := func(ctx context.Context) (s seen) {
		s.Tenant, _ = tenant.From(ctx)
		s.Depth, _ = depth.From(ctx)
		s.Plain = ctx.Value(plain{}) != nil
		return s
	}
	var nest tasks.Task[int, []seen]
	nest = tasks.DefineIn(table, "nest", func(ctx context.Context, n int) ([]seen, error) {
		out := []seen{look(ctx)}
		if n > 0 {
			ctx = depth.With(context.WithValue(ctx, plain{}, 1), n)
			if !look(ctx).Plain {
				t.Error("context.WithValue does not work within the turn")
			}
			more, err := nest.Go(ctx, n-1).Get(ctx)
			return append(out, more...), err
		}
		return out, nil
	})
	n, ctx := node(t, table)
	outer := n.Context(context.WithValue(tenant.With(context.Background(), "outer"), plain{}, 1))
	detached := nest.With(raysys.Detached())
	for name, c := range map[string]struct {
		ref  raysys.Ref[[]seen]
		want []seen
	}{
		"none":     {nest.Go(ctx, 1), []seen{{}, {"", 1, false}}},
		"declared": {nest.Go(tenant.With(ctx, "acme"), 2), []seen{{"acme", 0, false}, {"acme", 2, false}, {"acme", 1, false}}},
		"hidden":   {nest.Go(tenant.With(tenant.With(ctx, "acme"), "bolt"), 0), []seen{{"bolt", 0, false}}},
		"driver's": {nest.Go(outer, 0), []seen{{"outer", 0, false}}},
		"branch":   {nest.Go(raysys.Branch(tenant.With(ctx, "acme"), 1), 0), []seen{{"acme", 0, false}}},
		"detached": {detached.Go(tenant.With(ctx, "acme"), 0), []seen{{"acme", 0, false}}},
		"shape":    {nest.With(raysys.CPU(0)).Go(tenant.With(ctx, "acme"), 0), []seen{{"acme", 0, false}}},
		"deadline": {nest.With(raysys.Deadline(nodetest.Patience)).Go(tenant.With(ctx, "acme"), 0), []seen{{"acme", 0, false}}},
		"map":      {nest.Map(tenant.With(ctx, "acme"), []int{0})[0], []seen{{"acme", 0, false}}},
	} {
		got, err := nodetest.Get(t, ctx, c.ref)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	if v, ok := tenant.From(outer); v != "outer" || !ok {
		t.Errorf("the driver's own context carries %q", v)
	}
	if v, ok := raysys.NewContextKey[int]("tenant").From(tenant.With(ctx, "acme")); ok {
		t.Errorf("a key of another type reads %v", v)
	}
	if _, ok := tenant.From(context.Background()); ok {
		t.Error("a value from nowhere")
	}
}
