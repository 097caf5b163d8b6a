package tasks_test

import (
	"context"
	"errors"
	"math/bits"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// joined is a text, the depth of the tree that made it, and the node that the last step ran on.
type joined struct {
	Text  string
	Depth int
	Node  raysys.NodeID
}

func joins(table *raysys.Table) tasks.Task2[joined, joined, joined] {
	return tasks.Define2In(table, "joins", func(ctx context.Context, a, b joined) (joined, error) {
		if a.Text == "?" || b.Text == "?" {
			return joined{}, errBoom
		}
		return joined{a.Text + b.Text, 1 + max(a.Depth, b.Depth), system.NodeOf(ctx).Name()}, nil
	})
}

// TestReduce: the values keep their order, on one node and over three, and the tree is as flat as it can be.
func TestReduce(t *testing.T) {
	const letters = "abcdefghijklmnopq"
	for where, nodes := range map[string]int{"alone": 1, "over nodes": 3} {
		t.Run(where, func(t *testing.T) {
			table := raysys.NewTable()
			join := joins(table).With(raysys.Placement(raysys.Spread))
			ctx := testkit.New(t, testkit.Nodes(nodes), testkit.Table(table)).Context()
			ran := map[raysys.NodeID]bool{}
			for n := 1; n <= len(letters); n++ {
				refs := make([]raysys.Ref[joined], n)
				for i := range refs {
					refs[i] = raysys.Put(ctx, joined{Text: letters[i : i+1]})
				}
				first := refs[0]
				r := tasks.Reduce(ctx, join, refs)
				got, err := nodetest.Get(t, ctx, r)
				if want := (joined{letters[:n], bits.Len(uint(n - 1)), got.Node}); got != want || err != nil {
					t.Errorf("%d refs: %+v, %v; want %+v", n, got, err, want)
				}
				if n == 1 && r != first {
					t.Errorf("of one ref %v comes %v", first, r)
				} else if n > 1 {
					ran[got.Node] = true
				}
				if refs[0] != first {
					t.Errorf("Reduce of %d changed its refs", n)
				}
			}
			if len(ran) < nodes {
				t.Errorf("the steps ran on %v", ran)
			}
		})
	}
}

// TestReduceFails: no refs are a bad option that says what to do, and an operand or a step that fails fails the whole.
func TestReduceFails(t *testing.T) {
	table := raysys.NewTable()
	join := joins(table)
	_, ctx := nodetest.Node(t, table, 2)
	if _, err := nodetest.Get(t, ctx, tasks.Reduce(ctx, join, nil)); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), "no references") {
		t.Errorf("no refs: %v", err)
	}
	a, bad := raysys.Put(ctx, joined{Text: "a"}), raysys.Put(ctx, joined{Text: "?"})
	var te *raysys.TaskError
	if _, err := nodetest.Get(t, ctx, tasks.Reduce(ctx, join, []raysys.Ref[joined]{a, a, a, bad, a})); !errors.Is(err, errBoom) || !errors.As(err, &te) || te.Function != "joins" {
		t.Errorf("a step that fails: %v", err)
	}
	if _, err := nodetest.Get(t, ctx, tasks.Reduce(ctx, join, []raysys.Ref[joined]{a, {}, a})); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Errorf("a zero Ref: %v", err)
	}
}
