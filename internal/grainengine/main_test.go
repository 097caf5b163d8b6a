package grainengine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wants fails the test unless r ends with v.
func wants[T comparable](t testing.TB, ctx context.Context, r raysys.Ref[T], v T) {
	t.Helper()
	if got, err := r.Get(ctx); err != nil || got != v {
		t.Errorf("got %v, %v; want %v", got, err, v)
	}
}

// idOf is the name of a grain as the engine has it.
func idOf[G any](g grains.Grain[G]) graindir.ID { return graindir.ID(g.ID()) }

// serial makes keys unique in the process.
var serial atomic.Int64

// cell is a grain without behaviour of its own.
type cell struct{ n int }

var errNote = errors.New("torn")

// engineOf is the engine of a node.
func engineOf(n *system.Node) *grainengine.Engine {
	return grainengine.Of(n.Context(context.Background()))
}
