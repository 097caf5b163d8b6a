package taskengine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	await "github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test that should not wait at all.
const patience = 20 * time.Second

// node starts a node of the given CPUs over table and closes it with the test.
func node(t testing.TB, table *raysys.Table, cpus float64) (*system.Node, context.Context) {
	t.Helper()
	return nodeWith(t, system.Config{Table: table, Resources: raysys.Resources{CPU: cpus}})
}

func nodeWith(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
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

// want fails the test unless r ends in the value v.
func want[T comparable](t testing.TB, ctx context.Context, r raysys.Ref[T], v T) {
	t.Helper()
	if got, err := get(t, ctx, r); got != v || err != nil {
		t.Fatalf("got %v, %v; want %v", got, err, v)
	}
}

// eventually polls cond until it holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	await.Holds(t, patience, what, cond)
}

// arrive receives from ch, within patience.
func arrive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

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
