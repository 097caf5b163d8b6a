package testkit_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// safe is a grain whose State has a reference.
type safe struct {
	content grains.State[raysys.Ref[[]byte]]
}

// TestLineageInState: a grain that has a reference, and writes it to its State when the node with the object has died, has the
// object made again, once, and keeps it.
func TestLineageInState(t *testing.T) {
	table := raysys.NewTable()
	ran := map[int]int{}
	var mu sync.Mutex // guards ran
	makeBulk := tasks.DefineIn(table, "make", func(_ context.Context, n int) ([]byte, error) {
		mu.Lock()
		ran[n]++
		mu.Unlock()
		return slices.Repeat([]byte{byte(n)}, 2*raysys.ObjectSize), nil
	})
	safes := grains.DefineIn[safe](table, "safe")
	take := grains.Action(safes, "take", func(s *safe, ctx context.Context, r []raysys.Ref[[]byte]) error {
		s.content.Value = r[0]
		_, _, err := raysys.Wait(ctx, r, 1)
		return err
	})
	keep := grains.Method0(safes, "keep", func(s *safe, ctx context.Context) (bool, error) {
		if s.content.Value.ID().IsZero() {
			return false, nil // the grain was on the dead node
		}
		return true, s.content.Write(ctx)
	}).Idempotent()
	look := grains.Method0(safes, "look", func(s *safe, ctx context.Context) (int, error) {
		v, err := s.content.Value.Get(ctx)
		return len(v), err
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		clear(ran)
		grain := func(i int) grains.Grain[safe] { return safes.Get(strconv.Itoa(i)) }
		var refs []raysys.Ref[[]byte]
		for i := range 24 {
			refs = append(refs, makeBulk.Go(ctx, i))
		}
		for i, r := range refs {
			if _, err := take.Call(ctx, grain(i), []raysys.Ref[[]byte]{r}).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		k.Cluster().Kill(2)
		again := 0
		for i := range 24 {
			there, err := keep.Call(ctx, grain(i)).Get(ctx)
			if err != nil {
				t.Errorf("a State with a reference to object %d is not written: %v", i, err)
			}
			if !there || err != nil {
				continue
			}
			mu.Lock()
			again += ran[i] - 1
			mu.Unlock()
			if n, err := look.Call(ctx, grain(i)).Get(ctx); err != nil || n != 2*raysys.ObjectSize {
				t.Errorf("the State has object %d of %d bytes: %v", i, n, err)
			}
			mu.Lock()
			if ran[i] > 2 {
				t.Errorf("object %d was made %d times", i, ran[i])
			}
			mu.Unlock()
		}
		t.Logf("%d objects were made again by a Write", again)
	}, testkit.Table(table), testkit.Nodes(3))
}
