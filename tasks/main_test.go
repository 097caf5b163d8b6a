package tasks_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineOf is the engine of a node.
func engineOf(n *system.Node) *taskengine.Engine {
	return taskengine.Of(n.Context(context.Background()))
}
