package taskengine_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errBoom  = errors.New("boom")
	errOther = errors.New("other")
	errWhy   = errors.New("the user left")
)

// blockers defines a task that says it runs and then keeps its CPU until open is closed or its context ends.
func blockers(table *raysys.Table) (hold tasks.Task0[int], began chan struct{}, open chan struct{}) {
	began, open = make(chan struct{}, 1000), make(chan struct{})
	hold = tasks.Define0In(table, "hold", func(ctx context.Context) (int, error) {
		began <- struct{}{}
		select {
		case <-open:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	return hold, began, open
}

// engineOf is the engine of a node.
func engineOf(n *system.Node) *taskengine.Engine {
	return taskengine.Of(n.Context(context.Background()))
}
