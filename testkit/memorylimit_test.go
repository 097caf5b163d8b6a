package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestMemoryLimit: a node near its limit gets new grains last, and lets idle ones go; beyond 90 % it starts none, and they go to
// others; where all are full calls fail and say why; and all are served once there is room again.
func TestMemoryLimit(t *testing.T) {
	const limit = 100 << 20
	table := raysys.NewTable()
	boxes := grains.DefineIn[memoryBox](table, "box", grains.Durable())
	add := grains.Method(boxes, "add", func(b *memoryBox, ctx context.Context, n int) (raysys.NodeID, error) {
		b.Sum.Value += n
		return system.NodeOf(ctx).Name(), nil
	})
	var percent [4]atomic.Int64
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		set := func(all ...int64) {
			for i, p := range all {
				percent[i+1].Store(p)
			}
			k.Advance(5 * time.Second) // looks, and loads are told
		}
		serial := 0
		place := func(n int) (on map[raysys.NodeID]int) {
			on = map[raysys.NodeID]int{}
			for range n {
				serial++
				node, err := add.Call(ctx, boxes.Get(fmt.Sprint(serial)), 1).Get(ctx)
				if err != nil {
					t.Fatalf("grain %d: %v", serial, err)
				}
				on[node]++
			}
			return on
		}
		names := []raysys.NodeID{"", k.Cluster().Node(1).Name(), k.Cluster().Node(2).Name(), k.Cluster().Node(3).Name()}
		active := func(i int) (n int) {
			s, err := k.Cluster().Node(i).Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for j := range s.Nodes {
				if s.Nodes[j].Name == names[i] {
					n = s.Nodes[j].Grains["box"]
				}
			}
			return n
		}
		set(10, 10, 10)
		on := place(60)
		if on[names[1]] == 0 {
			t.Fatalf("placed on %v", on)
		}
		set(82, 10, 10)
		if n := active(1); n >= on[names[1]] {
			t.Errorf("node 1 has %d idle grains of %d, near its limit", n, on[names[1]])
		}
		if on = place(40); on[names[1]] != 0 || on[names[2]] == 0 || on[names[3]] == 0 {
			t.Errorf("near its limit node 1 gets grains: %v", on)
		}
		set(95, 95, 10)
		if on = place(40); on[names[3]] != 40 {
			t.Errorf("two of three are full: placed on %v", on)
		}
		set(95, 95, 95)
		_, err := add.Call(ctx, boxes.Get("one more"), 1).Get(ctx)
		if !errors.Is(err, raysys.ErrOverloaded) || !strings.Contains(err.Error(), "95 of 100 MiB") {
			t.Errorf("all are full: %v", err)
		}
		set(10, 10, 10)
		k.Advance(2 * time.Minute)
		for i := 1; i <= serial; i++ {
			if _, err := add.Call(ctx, boxes.Get(fmt.Sprint(i)), 1).Get(ctx); err != nil {
				t.Errorf("grain %d: %v", i, err)
			}
		}
		on = place(60)
		if on[names[1]] == 0 || on[names[2]] == 0 {
			t.Errorf("with room again: placed on %v", on)
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.MemoryLimit = limit
			*standins.MemoryUsed(cfg) = func() int64 { return percent[i].Load() * limit / 100 }
		}
	}))
}

// memoryBox is a grain that keeps a sum.
type memoryBox struct{ Sum grains.State[int] }
