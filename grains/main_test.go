package grains_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver is start with a table of the test's own.
func driver(t testing.TB, tb *raysys.Table) context.Context {
	t.Helper()
	_, ctx := nodetest.Start(t, system.Config{Table: tb})
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
