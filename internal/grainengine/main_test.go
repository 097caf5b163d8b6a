package grainengine_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	await "github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a node until the test ends and returns it with a driver's context.
func start(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	t.Helper()
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n, n.Context(context.Background())
}

// driver is start with a table of the test's own.
func driver(t testing.TB, tb *raysys.Table) context.Context {
	t.Helper()
	_, ctx := start(t, system.Config{Table: tb})
	return ctx
}

// wants fails the test unless r ends with v.
func wants[T comparable](t testing.TB, ctx context.Context, r raysys.Ref[T], v T) {
	t.Helper()
	if got, err := r.Get(ctx); err != nil || got != v {
		t.Errorf("got %v, %v; want %v", got, err, v)
	}
}

// fails fails the test unless r ends with an error that is target, and returns that error.
func fails[T any](t testing.TB, ctx context.Context, r raysys.Ref[T], target error) error {
	t.Helper()
	v, err := r.Get(ctx)
	if !errors.Is(err, target) {
		t.Errorf("got %v, %v; want an error that is %q", v, err, target)
	}
	return err
}

// patience bounds every wait of a test that should not wait at all.
const patience = 20 * time.Second

// arrive receives from ch; what is the law that says that something comes.
func arrive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case v := <-ch:
		return v
	case <-limit.C:
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// eventually waits for a fact that nothing announces.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	await.Holds(t, patience, what, cond)
}

// eventuallyGC is eventually for what the garbage collector brings about.
func eventuallyGC(t testing.TB, what string, cond func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		runtime.GC()
		return cond()
	})
}

// idOf is the name of a grain as the engine has it.
func idOf[G any](g grains.Grain[G]) grainengine.ID { return grainengine.ID(g.ID()) }

// serial makes keys unique in the process.
var serial atomic.Int64

// cell is a grain without behaviour of its own.
type cell struct{ n int }

var errNote = errors.New("torn")

// engineOf is the engine of a node.
func engineOf(n *system.Node) *grainengine.Engine {
	return grainengine.Of(n.Context(context.Background()))
}
