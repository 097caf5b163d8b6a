package raysys_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodeCPUs are those of node, however many the machine has.
const nodeCPUs = 2

// node starts a node of nodeCPUs.
func node(t testing.TB, table *raysys.Table) (*system.Node, context.Context) {
	t.Helper()
	return nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: nodeCPUs}})
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
