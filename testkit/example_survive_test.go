package testkit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// A Visits counts, and stores each number before it answers.
type Visits struct{ n grains.State[int] }

func (v *Visits) Count(context.Context) (int, error) {
	v.n.Value++
	return v.n.Value, nil
}

func (v *Visits) Read(context.Context) (int, error) { return v.n.Value, nil }

var (
	visitTable = raysys.NewTable()
	visits     = grains.DefineIn[Visits](visitTable, "visits", grains.Durable())
	count      = grains.Method0(visits, "count", (*Visits).Count)
	counted    = grains.Method0(visits, "read", (*Visits).Read).ReadOnly().Idempotent()
)

// visitsSurvive counts a visit on one of three nodes, kills that node and asks again: the grain is on another one, with what
// it has stored.
func visitsSurvive(t testing.TB) {
	k := testkit.New(t, testkit.Nodes(3), testkit.Table(visitTable))
	ctx, home := k.Context(), visits.Get("home")
	onTwo := count.With(raysys.OnNode(k.Cluster().Name(2)))
	if _, err := onTwo.Call(ctx, home).Get(ctx); err != nil {
		t.Fatal(err)
	}
	k.Cluster().Kill(2)
	fmt.Println(counted.Call(ctx, home).Get(ctx))
}

// A test calls visitsSurvive with its own t. Here a fake stands for that, which keeps what is reported.
func Example_surviveANode() {
	t := &fake{}
	t.run(func() { visitsSurvive(t) })
	fmt.Println(len(t.errors), "errors")
	// Output:
	// 1 <nil>
	// 0 errors
}
