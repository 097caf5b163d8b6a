package system_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
)

// TestClosedNodesAreCollected: the collector finds nodes that have closed, also where they had objects of each other. The
// cleanup of a future must not hold the node that leads to the future.
func TestClosedNodesAreCollected(t *testing.T) {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	names := []raysys.NodeID{"d", "w1", "w2"}
	var gone []weak.Pointer[system.Node]
	func() {
		var nodes []*system.Node
		for i, name := range names {
			role := system.Worker
			if i == 0 {
				role = system.Driver
			}
			n, err := system.New(system.Config{Name: name, Table: table, Namespace: "test", Cluster: &system.ClusterConfig{Store: kv, Role: role}})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			nodes, gone = append(nodes, n), append(gone, weak.Make(n))
		}
		ctx := nodes[0].Context(context.Background())
		made := pack.Go(ctx, order{3, large, 0})
		if p, err := made.Get(ctx); err != nil {
			t.Error(err)
		} else if n, err := p.seed(); n != 3 || err != nil {
			t.Error(n, err)
		}
		for _, n := range nodes {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	for i, n := range gone {
		eventually(t, string(names[i])+" is collected", func() bool {
			runtime.GC()
			return n.Value() == nil
		})
	}
}
