package system_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

// memoryOf asks one node.
func memoryOf(t *testing.T, asked *system.Node, name raysys.NodeID, limit int) inspect.NodeMemory {
	t.Helper()
	m, err := asked.Memory(t.Context(), name, limit)
	if err != nil || len(m.Nodes) != 1 || m.Nodes[0].Error != "" || m.Nodes[0].Name != name {
		t.Fatalf("memory of %s: %+v, %v", name, m, err)
	}
	return m.Nodes[0]
}

// TestMemory: what is put, returned, copied, named and replicated is listed where it is, with who holds it and why.
func TestMemory(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.join("w1", system.Worker)
	f.join("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)

	big := raysys.Put(ctx, fill(3<<20, 1))
	named := raysys.Put(ctx, fill(2<<20, 2), raysys.Named("weights"), raysys.Replicas(2))
	small := raysys.Put(ctx, fill(1000, 3))
	result := makeBytes.Go(ctx, 4<<20)
	if _, err := sumBytes.On(ctx, big).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := named.Get(ctx); err != nil {
		t.Fatal(err)
	}
	if err := raysys.View(ctx, result, func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}

	here := memoryOf(t, w1, "d", 100) // asked over the wire
	if here.Count != 3 || len(here.Objects) != 3 || here.Bytes < 9<<20 || here.Store.Objects != 3 {
		t.Fatalf("the driver holds %+v", here)
	}
	copied, put, kept := here.Objects[0], here.Objects[1], here.Objects[2]
	if copied.Why != "received" && copied.Why != "attached" || copied.Owner == "" || copied.Owner == "d" || copied.Refs == 0 || copied.Primary {
		t.Errorf("the copy of a result: %+v", copied)
	}
	if put.Why != "put" || !put.Primary || put.Owner != "" || put.Size < 3<<20 || put.Since.IsZero() {
		t.Errorf("what was put: %+v", put)
	}
	if diff := cmp.Diff([]string{"weights"}, kept.Names); diff != "" || len(kept.Kept) != 1 {
		t.Errorf("the named one: %s\n%+v", diff, kept)
	}
	there := memoryOf(t, d, kept.Kept[0], 100)
	found := false
	for _, o := range there.Objects {
		if o.ID == kept.ID {
			found = true
			if o.KeptFor != "d" || !o.Primary || len(o.Names) != 1 {
				t.Errorf("the replica: %+v", o)
			}
		}
	}
	if !found {
		t.Errorf("node %s does not list the replica: %+v", kept.Kept[0], there)
	}
	at := memoryOf(t, d, copied.Owner, 100)
	if o := at.Objects[0]; o.Why != "result of objects.make" || o.Holders["d"] == 0 || !o.Primary {
		t.Errorf("the result where it was made: %+v", o)
	}

	// The list is bounded, the counts are not.
	if m := memoryOf(t, w1, "d", 1); m.Count != 3 || len(m.Objects) != 1 || m.Objects[0].ID != copied.ID || m.Bytes != here.Bytes {
		t.Errorf("one of them: %+v", m)
	}
	if m, err := d.Memory(ctx, "", 0); err != nil || len(m.Nodes) != 3 || m.Nodes[0].Name != "d" || m.Nodes[0].Objects == nil {
		t.Errorf("of all nodes: %+v, %v", m, err)
	}
	if _, err := d.Memory(ctx, "w9", 1); !errors.Is(err, system.ErrNoSuchNode) {
		t.Errorf("of nobody: %v", err)
	}
	runtime.KeepAlive([]any{big, named, small, result})
}

// A node without a cluster lists its own.
func TestMemoryAlone(t *testing.T) {
	n, ctx := startNode(t, system.Config{Table: table, Name: "one"})
	r := makeBytes.Go(ctx, 1<<20)
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
	m := memoryOf(t, n, "one", 10)
	if m.Count != 1 || m.Objects[0].Why != "result of objects.make" || m.Objects[0].Memory < 1<<20 {
		t.Errorf("%+v", m)
	}
	if _, err := n.Memory(context.Background(), "two", 10); !errors.Is(err, system.ErrNoSuchNode) {
		t.Errorf("of another: %v", err)
	}
	runtime.KeepAlive(r)
}
