package guide_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys/grains/limit"
	"github.com/raysys/raysys/testkit"
)

var partner = limit.AtMost("guide.partner", 4) // 4 requests at once, to each shop

func price(ctx context.Context, shop string) (string, error) {
	p, err := limit.Take(ctx, partner, shop, 1) // waits
	if err != nil {
		return "", err
	}
	defer p.Release()
	return get(p.Context(), shop)
}

var renders = limit.Rate("guide.renders", 100, time.Hour)

func render(ctx context.Context, customer string, pages int) error {
	_, err := limit.Take(ctx, renders, customer, pages, limit.Try())
	if errors.Is(err, limit.ErrBusy) {
		return errTooMany
	}
	return err
}

var (
	errTooMany = errors.New("too many pages")
	model      = limit.AtMost("guide.model", 1)
)

func answer(ctx context.Context, customer string) (*limit.Permit, error) {
	return limit.Take(ctx, model, "", 1, limit.For(customer))
}

func TestLimits(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(1)).Context()
	if got, err := price(ctx, "north"); err != nil {
		t.Error(got, err)
	}
	if err := render(ctx, "alice", 100); err != nil {
		t.Error(err)
	}
	if err := render(ctx, "alice", 1); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
	if err := render(ctx, "bob", 1); err != nil {
		t.Error(err)
	}
	p, err := answer(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
}
