package raysys_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	await "github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test that should not wait at all.
const patience = 20 * time.Second

// start starts a node and closes it with the test.
func start(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	t.Helper()
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNode(t, n) })
	return n, n.Context(context.Background())
}

func closeNode(t testing.TB, n *system.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// nodeCPUs are those of node, however many the machine has.
const nodeCPUs = 2

// node starts a node of nodeCPUs.
func node(t testing.TB, table *raysys.Table) (*system.Node, context.Context) {
	t.Helper()
	return start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: nodeCPUs}})
}

// get waits for r on a context of its own, so that the work runs on the node's workers and never in place.
func get[T any](t testing.TB, ctx context.Context, r raysys.Ref[T]) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := r.Get(ctx)
	if ctx.Err() != nil {
		t.Fatalf("%v has not settled within %v", r, patience)
	}
	return v, err
}

// eventually polls cond until it holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	await.Holds(t, patience, what, cond)
}

// gated defines a task that returns its argument once open is closed, or fails with its context.
func gated(table *raysys.Table) (task tasks.Task[int, int], open chan struct{}) {
	open = make(chan struct{})
	return tasks.DefineIn(table, "gated", func(ctx context.Context, x int) (int, error) {
		select {
		case <-open:
			return x, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}), open
}

// echo defines a task that returns its argument.
func echo(table *raysys.Table) tasks.Task[int, int] {
	return tasks.DefineIn(table, "echo", func(_ context.Context, x int) (int, error) { return x, nil })
}
