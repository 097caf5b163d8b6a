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

// TestLineageInputs: a task that makes a lost object again on another node has its inputs, which were lost too, made again
// by the node that submitted them.
func TestLineageInputs(t *testing.T) {
	const n = 12
	type piece struct {
		N  int
		Of [2]raysys.Ref[[]byte]
	}
	table := raysys.NewTable()
	var mu sync.Mutex // guards ran
	ran := map[int][]raysys.NodeID{}
	count := func(ctx context.Context, n int) error {
		turn, _, err := core.TurnOf(ctx)
		mu.Lock()
		ran[n] = append(ran[n], turn.Job().Node)
		mu.Unlock()
		return err
	}
	makeBulk := tasks.DefineIn(table, "make", func(ctx context.Context, i int) ([]byte, error) {
		return slices.Repeat([]byte{byte(i)}, 2*raysys.ObjectSize), count(ctx, i)
	})
	join := tasks.DefineIn(table, "join", func(ctx context.Context, p piece) ([]byte, error) {
		if err := count(ctx, n+p.N); err != nil {
			return nil, err
		}
		a, err := p.Of[0].Get(ctx)
		if err != nil {
			return nil, err
		}
		b, err := p.Of[1].Get(ctx)
		if err != nil {
			return nil, err
		}
		return slices.Repeat([]byte{a[0] + b[0]}, 2*raysys.ObjectSize), nil
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		mu.Lock()
		clear(ran)
		mu.Unlock()
		var refs []raysys.Ref[[]byte]
		for i := range n {
			refs = append(refs, makeBulk.Go(ctx, i))
		}
		for i := range n {
			refs = append(refs, join.Go(ctx, piece{i, [2]raysys.Ref[[]byte]{refs[i], refs[(i+1)%n]}}))
		}
		if _, _, err := raysys.Wait(ctx, refs, len(refs)); err != nil {
			t.Fatal(err)
		}
		k.Cluster().Kill(2)
		for i := n; i < 2*n; i++ {
			want := i - n + (i-n+1)%n
			if v, err := refs[i].Get(ctx); err != nil || v[0] != byte(want) {
				t.Errorf("join %d: %d bytes, %v: it is made again of what is made again, want %d", i-n, len(v), err, want)
			}
		}
		for i, at := range ran {
			if len(at) > 2 || len(at) == 2 && at[0] != k.Cluster().Name(2) {
				t.Errorf("task %d ran at %v: only what the dead node had is made again, once", i, at)
			}
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
