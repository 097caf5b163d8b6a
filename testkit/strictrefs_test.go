package testkit_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// crates is an argument with references inside.
type crates struct{ Refs []raysys.Handle[[]byte] }

var countCrates = tasks.Define("count crates", func(_ context.Context, c crates) (int, error) { return len(c.Refs), nil })

// TestStrictFreesObjects: an object whose references were handed over in strict mode is freed once the program has none.
func TestStrictFreesObjects(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	func() {
		var c crates
		for range 3 {
			c.Refs = append(c.Refs, raysys.Put(ctx, make([]byte, 1<<20)).Handle())
		}
		if n, err := countCrates.Go(ctx, c).Get(ctx); n != 3 || err != nil {
			t.Error(n, err)
		}
		if n := k.Node().Objects().Objects; n != 3 {
			t.Errorf("%d objects, want 3", n)
		}
	}()
	nodetest.EventuallyGC(t, "the objects are freed", func() bool {
		return k.Node().Objects().Objects == 0
	})
}
