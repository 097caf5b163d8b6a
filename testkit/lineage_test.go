package testkit_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestLineageKill: the objects that a killed node had are made again, each once; the others stay.
func TestLineageKill(t *testing.T) {
	table := raysys.NewTable()
	var mu sync.Mutex // guards ran
	ran := map[int][]raysys.NodeID{}
	makeBulk := tasks.DefineIn(table, "make", func(ctx context.Context, n int) ([]byte, error) {
		turn, _, err := core.TurnOf(ctx)
		mu.Lock()
		ran[n] = append(ran[n], turn.Job().Node)
		mu.Unlock()
		return slices.Repeat([]byte{byte(n)}, 2*raysys.ObjectSize), err
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		mu.Lock()
		clear(ran)
		mu.Unlock()
		var refs []raysys.Ref[[]byte]
		for i := range 24 {
			refs = append(refs, makeBulk.Go(ctx, i))
		}
		if _, _, err := raysys.Wait(ctx, refs, len(refs)); err != nil {
			t.Fatal(err)
		}
		k.Cluster().Kill(2)
		dead := k.Cluster().Name(2)
		var readers sync.WaitGroup
		for range 3 {
			for i, r := range refs {
				readers.Go(func() {
					if v, err := r.Get(ctx); err != nil || len(v) != 2*raysys.ObjectSize || v[0] != byte(i) {
						t.Errorf("object %d: %d bytes, %v: what only the dead node had is made again", i, len(v), err)
					}
				})
			}
		}
		readers.Wait()
		for i, at := range ran {
			want := 1
			if at[0] == dead {
				want = 2
			}
			if len(at) != want || at[len(at)-1] == dead {
				t.Errorf("task %d ran at %v: %s died, and a value is made again once where it was lost, and else not", i, at, dead)
			}
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
