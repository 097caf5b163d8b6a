package testkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// TestBrokenPairIsRelayed: two nodes that cannot reach each other go on through the third, and nobody is evicted.
func TestBrokenPairIsRelayed(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Nodes(3), testkit.Table(table))
	c := k.Cluster()
	c.Cut(1, 2)
	ctx := c.Node(1).Context(context.Background())
	deadline := time.Now().Add(20 * time.Second)
	for i := 0; ; i++ {
		ok := 0
		for j := range 20 { // some of these live on node 2
			v, err := add.With(raysys.Deadline(time.Second)).Call(ctx, counters.Get(fmt.Sprint(i, "-", j)), 1).Get(ctx)
			if v == 1 && err == nil {
				ok++
			}
		}
		if ok == 20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("calls between the two still fail")
		}
	}
	st, err := c.Node(1).Status(ctx)
	if err != nil || len(st.Nodes) < 3 {
		t.Fatal(st.Nodes, err)
	}
	for _, n := range st.Nodes {
		if n.Error != "" {
			t.Errorf("%s: %s", n.Name, n.Error)
		}
	}
}
