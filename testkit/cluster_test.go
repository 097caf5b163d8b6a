package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// at is the node whose turn runs under ctx.
func at(ctx context.Context) string {
	t, _, err := raysys.TurnOf(ctx)
	if err != nil {
		return err.Error()
	}
	return string(t.Job().Node)
}

var where = tasks.Define0In(table, "where", func(ctx context.Context) (string, error) { return at(ctx), nil })

// counter keeps its number in the store.
type counter struct {
	n grains.State[int]
}

func (c *counter) Add(ctx context.Context, d int) (int, error) {
	c.n.Value += d
	if err := c.n.Write(ctx); err != nil {
		return 0, err
	}
	return c.n.Value, nil
}

func (c *counter) Where(ctx context.Context) (string, error) { return at(ctx), nil }

var (
	counters = grains.DefineIn[counter](table, "counter")
	add      = grains.Method(counters, "add", (*counter).Add)
	home     = grains.Method0(counters, "where", (*counter).Where)
)

func TestNodes(t *testing.T) {
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(3))
	ctx := k.Context()
	seen := map[string]bool{}
	for i := range 30 {
		n, err := add.Call(ctx, counters.Get(fmt.Sprint(i)), i).Get(ctx)
		if n != i || err != nil {
			t.Fatal(n, err)
		}
		h, err := home.Call(ctx, counters.Get(fmt.Sprint(i))).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen[h] = true
		h, err = where.Go(ctx).Get(ctx)
		if err != nil || h == "test" {
			t.Fatal(h, err)
		}
	}
	if !seen["n1"] || !seen["n2"] || !seen["n3"] || len(seen) != 3 {
		t.Errorf("grains live on %v", seen)
	}
	_ = errors.Is
	_ = time.Second
	_ = system.Worker
}
