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

// TestLineageInState: a grain that writes a State with a reference to what a dead node had has it made again, once, and
// keeps it.
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
	keep := grains.Action(safes, "keep", func(s *safe, ctx context.Context, r []raysys.Ref[[]byte]) error {
		s.content.Value = r[0]
		return s.content.Write(ctx)
	})
	look := grains.Method0(safes, "look", func(s *safe, ctx context.Context) (int, error) {
		v, err := s.content.Value.Get(ctx)
		return len(v), err
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		var refs []raysys.Ref[[]byte]
		for i := range 12 {
			refs = append(refs, makeBulk.Go(ctx, i))
		}
		if _, _, err := raysys.Wait(ctx, refs, len(refs)); err != nil {
			t.Fatal(err)
		}
		k.Cluster().Kill(2)
		var kept []grains.Done
		for i, r := range refs {
			kept = append(kept, keep.Call(ctx, safes.Get(strconv.Itoa(i)), []raysys.Ref[[]byte]{r}))
		}
		again := 0
		for i, d := range kept {
			if _, err := d.Get(ctx); err != nil {
				t.Errorf("a State with a reference to object %d is not written: %v", i, err)
				continue
			}
			if n, err := look.Call(ctx, safes.Get(strconv.Itoa(i))).Get(ctx); err != nil || n != 2*raysys.ObjectSize {
				t.Errorf("the State has object %d of %d bytes: %v", i, n, err)
			}
			mu.Lock()
			again += ran[i] - 1
			if ran[i] > 2 {
				t.Errorf("object %d was made %d times", i, ran[i])
			}
			mu.Unlock()
		}
		if again == 0 {
			t.Error("the dead node had nothing: the test tests nothing")
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
