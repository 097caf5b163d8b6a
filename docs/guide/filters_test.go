package guide_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	tenant      = raysys.NewContextKey[string]("guide.filters.tenant")
	errNoTenant = errors.New("no tenant")
	_           = raysys.RegisterError("guide.filters.no-tenant", errNoTenant)

	invoice = tasks.Define0("guide.filters.invoice", func(ctx context.Context) (string, error) {
		who, _ := tenant.From(ctx)
		return "invoice of " + who, nil
	})
)

// needTenant refuses work of no tenant, and logs what failed.
func needTenant(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
	who, ok := tenant.From(ctx)
	if !ok {
		return errNoTenant // the outcome; the work does not run
	}
	err := next(ctx)
	if err != nil {
		raysys.Logger(ctx).Warn("work failed", "tenant", who, "work", w.Name(), "grain", w.Key(), "error", err)
	}
	return err
}

func TestFilters(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(1), testkit.Config(system.Config{Filters: []raysys.Filter{needTenant}})).Context()
	if got, err := invoice.Go(tenant.With(ctx, "alice")).Get(ctx); got != "invoice of alice" || err != nil {
		t.Error(got, err)
	}
	if _, err := invoice.Go(ctx).Get(ctx); !errors.Is(err, errNoTenant) {
		t.Error(err)
	}
}
