package nodetest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/system"
)

// Patience bounds every wait of a test that should not wait at all.
const Patience = 20 * time.Second

// Start starts a node and closes it with the test. The context is a driver's.
func Start(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	t.Helper()
	if cfg.MemoryLimit == 0 { // in virtual time a look each second would take the time of years
		cfg.MemoryLimit = -1
	}
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, n) })
	return n, n.Context(context.Background())
}

// Node starts a node of the given CPUs over table.
func Node(t testing.TB, table *raysys.Table, cpus float64) (*system.Node, context.Context) {
	t.Helper()
	return Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: cpus}})
}

// Driver is Start with a table of the test's own, for its context alone.
func Driver(t testing.TB, table *raysys.Table) context.Context {
	t.Helper()
	_, ctx := Start(t, system.Config{Table: table})
	return ctx
}

// Close closes a node within Patience. A node may be closed twice.
func Close(t testing.TB, n *system.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Get waits for r on a context of its own, so that the work runs on the node's workers and never in place.
func Get[T any](t testing.TB, ctx context.Context, r raysys.Ref[T]) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	v, err := r.Get(ctx)
	if ctx.Err() != nil {
		t.Fatalf("%v has not settled within %v", r, Patience)
	}
	return v, err
}

// Want fails the test unless r ends in the value v.
func Want[T comparable](t testing.TB, ctx context.Context, r raysys.Ref[T], v T) {
	t.Helper()
	if got, err := Get(t, ctx, r); got != v || err != nil {
		t.Fatalf("got %v, %v; want %v", got, err, v)
	}
}

// Fails fails the test unless r ends with an error that is target, and returns that error.
func Fails[T any](t testing.TB, ctx context.Context, r raysys.Ref[T], target error) error {
	t.Helper()
	v, err := r.Get(ctx)
	if !errors.Is(err, target) {
		t.Errorf("got %v, %v; want an error that is %q", v, err, target)
	}
	return err
}

// Eventually polls cond until it holds.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	eventually.Holds(t, Patience, what, cond)
}

// Arrive receives from ch.
func Arrive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case v := <-ch:
		return v
	case <-limit.C:
		t.Fatalf("not within %v: %s", Patience, what)
		panic("unreachable")
	}
}

// EventuallyGC is Eventually for what the garbage collector brings about.
func EventuallyGC(t testing.TB, what string, cond func() bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		runtime.GC()
		return cond()
	})
}
