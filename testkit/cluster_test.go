package testkit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// at is the node whose turn runs under ctx.
func at(ctx context.Context) string {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return err.Error()
	}
	return string(t.Job().Node)
}

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
	where = tasks.Define0In(table, "where", func(ctx context.Context) (string, error) { return at(ctx), nil })

	counters = grains.DefineIn[counter](table, "counter")
	add      = grains.Method(counters, "add", (*counter).Add)
	home     = grains.Method0(counters, "where", (*counter).Where).Idempotent()
)

// livingOn returns a key of a counter that lives on node i.
func livingOn(k *testkit.Kit, t testing.TB, i int) string {
	t.Helper()
	for n := range 1000 {
		key := fmt.Sprint(n)
		h, err := home.Call(k.Context(), counters.Get(key)).Get(k.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h == string(k.Cluster().Name(i)) {
			return key
		}
	}
	t.Fatalf("none of 1000 grains lives on node %d", i)
	return ""
}

func TestNodes(t *testing.T) {
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		cfg.Cluster.Labels = map[string]string{"number": fmt.Sprint(i)}
	}))
	ctx := k.Context()
	seen := map[string]bool{}
	for i := range 60 {
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
	st, err := k.Cluster().Status()
	if err != nil || len(st.Nodes) != 4 {
		t.Fatal(st, err)
	}
	for i, name := range []raysys.NodeID{"n1", "n2", "n3", "test"} {
		if n := st.Nodes[i]; n.Name != name || n.Labels["number"] != fmt.Sprint((i+1)%4) {
			t.Errorf("node %d is %s with %v", i, n.Name, n.Labels)
		}
	}
}

func TestStrictOnEachNode(t *testing.T) {
	kept = nil
	f := &fake{}
	f.run(func() {
		k := testkit.New(f, testkit.Seed(1), testkit.Table(table), testkit.Nodes(1))
		if _, err := keep.Go(k.Context(), 2).Get(k.Context()); err != nil {
			t.Error(err)
		}
		kept[0][1] = 7
	})
	f.want(t, "node n1", "result of task keep")
}

func TestClusterNeedsNodes(t *testing.T) {
	f := &fake{}
	f.run(func() { testkit.New(f, testkit.Seed(1), testkit.Table(table)).Cluster() })
	f.want(t, "testkit.Nodes(n)")
	f = &fake{}
	f.run(func() { testkit.New(f, testkit.Seed(1), testkit.Table(table), testkit.Nodes(2)).Cluster().Kill(3) })
	f.want(t, "there is no node 3")
}
