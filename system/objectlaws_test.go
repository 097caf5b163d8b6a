package system

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/registry"
)

// alone starts a node in a process of its own.
func alone(t *testing.T) (*Node, context.Context) {
	t.Helper()
	n, err := New(Config{Table: raysys.NewTable()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, n.Context(t.Context())
}

// TestLaterHoldStays: the end of a State's earlier hold of an object leaves a later one.
func TestLaterHoldStays(t *testing.T) {
	n, ctx := alone(t)
	r := raysys.Put(ctx, make([]byte, 1<<20))
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
	o := n.store
	oid, err := o.ensure(r.RefFuture())
	if err != nil {
		t.Fatal(err)
	}
	key := registry.StateKey("test", grainengine.ID{Kind: "kind", Key: "key"}, "n")
	for range 2 {
		if err := o.holdFor(key, oid); err != nil {
			t.Fatal(err)
		}
	}
	r.Release()
	(&hold{o: o, key: key, oid: oid, number: 1}).end()
	if o.store.Lookup(oid) == nil {
		t.Fatal("the end of the first hold freed what the second still holds")
	}
	(&hold{o: o, key: key, oid: oid, number: 2}).end()
	if o.store.Lookup(oid) != nil {
		t.Error("the object stays after its last hold")
	}
}
