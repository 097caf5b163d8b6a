package testkit_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestReadWithoutStore: while the store is away from all nodes, what a dead node computed is made again by its submitter, and what has a
// name and another copy is found. A node that dies meanwhile is not known to be dead: what it alone has may be had later.
func TestReadWithoutStore(t *testing.T) {
	table := raysys.NewTable()
	made := tasks.DefineIn(table, "made", func(_ context.Context, b byte) ([]byte, error) { return bytes.Repeat([]byte{b}, 1<<20), nil })
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx, cl := k.T(), k.Context(), k.Cluster()
		at := func(i int) raysys.Option { return raysys.Prefer(raysys.OnNode(cl.Name(i))) }
		first, second := made.With(at(1)).Go(ctx, 7), made.With(at(2)).Go(ctx, 8)
		named := raysys.Put(ctx, bytes.Repeat([]byte{9}, 1<<20), raysys.Named("nine"), raysys.Replicas(2))
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{first, second, named}, 3); err != nil {
			t.Fatal(err)
		}
		var down time.Time // of the store
		wants := func(what string, ctx context.Context, r raysys.Ref[[]byte], b byte) {
			t.Helper()
			began := time.Now()
			got, err := r.Get(ctx)
			if errors.Is(err, raysys.ErrSuspended) && time.Since(down) > time.Second {
				return // its last lease before the store went away is over by now: when that is depends on the order of the nodes
			}
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{b}, 1<<20)) {
				t.Errorf("%s: %d bytes, %v", what, len(got), err)
			}
			if most := long.Form(10*time.Second, time.Second); time.Since(began) > most { // the store stays away
				t.Errorf("%s: after %v, want %v at most", what, time.Since(began), most)
			}
		}
		cl.Kill(1)
		for st, err := cl.Status(); len(st.Nodes) != 3; st, err = cl.Status() {
			if err != nil {
				t.Fatal(err)
			}
			k.Advance(time.Second)
		}
		cl.StoreDown()
		down = time.Now()
		wants("what the dead node computed", ctx, first, 7)
		other := cl.Node(3).Context(context.Background())
		wants("a name, at another node", other, raysys.Lookup[[]byte](other, "nine"), 9)
		cl.Kill(2)
		if got, err := second.Get(ctx); !errors.Is(err, raysys.ErrUnreachable) {
			t.Errorf("what a node has that died without the store: %d bytes, %v; want ErrUnreachable", len(got), err)
		}
		cl.StoreUp()
		for err := error(nil); ; k.Advance(time.Second) {
			var got []byte
			if got, err = second.Get(ctx); err == nil && bytes.Equal(got, bytes.Repeat([]byte{8}, 1<<20)) {
				return
			}
			if !errors.Is(err, raysys.ErrUnreachable) {
				t.Fatalf("the store is back: %d bytes, %v", len(got), err)
			}
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
