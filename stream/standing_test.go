package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// agentsOf is how many agents each worker has.
func agentsOf(t testing.TB, c *testkit.Cluster) (counts []int, moved uint64) {
	t.Helper()
	s, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		if n.Role == "worker" && n.State == inspect.NodeActive {
			counts = append(counts, n.Grains["stream.agent"])
			if n.Balance != nil {
				moved += n.Balance.Moved
			}
		}
	}
	return counts, moved
}

// TestAgentsAreSpread: after three of four nodes have been killed and started again for ten minutes, all four have the same number of agents
// within a minute and a half, but for one; and each event has counted once. A node hands half of what it has above its
// share in each second window of 5 s, so the last of thirty agents goes after a minute.
func TestAgentsAreSpread(t *testing.T) {
	inMemory(t)
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		stop, published := make(chan struct{}), make(chan map[string]int)
		go func() {
			want := map[string]int{}
			rng := rand.New(rand.NewPCG(k.Seed(), 1))
			for i := 1; ; i++ {
				key := fmt.Sprint("spread", rng.IntN(50))
				if _, err := coins.Publish(ctx, key, i); err != nil {
					k.T().Errorf("publish: %v", err)
				}
				want[key] += i
				select {
				case <-stop:
					published <- want
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
		rng := rand.New(rand.NewPCG(k.Seed(), 2))
		for range 12 { // of 50 s each
			i := 2 + rng.IntN(3)
			c.Kill(i)
			k.Advance(time.Duration(rng.IntN(20)) * time.Second)
			if j := 2 + rng.IntN(3); j != i && rng.IntN(2) == 0 {
				c.Kill(j)
				k.Advance(5 * time.Second)
				c.Restart(j)
			}
			c.Restart(i)
			k.Advance(time.Duration(20+rng.IntN(15)) * time.Second)
		}
		k.Advance(90 * time.Second)
		counts, moved := agentsOf(k.T(), c)
		t.Logf("agents of each node: %v; %d have moved from nodes that run", counts, moved)
		if len(counts) != 4 || slices.Max(counts)-slices.Min(counts) > 1 || slices.Min(counts) == 0 {
			k.T().Errorf("the nodes have %v agents", counts)
		}
		close(stop)
		want := <-published
		k.Advance(time.Minute)
		for key, w := range want {
			g := purses.Get(key)
			eventually(k.T(), ctx, g.String(), func(ctx context.Context) (int, error) { return sum.Call(ctx, g).Get(ctx) }, w)
		}
	}, testkit.Nodes(4), testkit.Loose(), testkit.Each(func(_ int, cfg *system.Config) {
		cfg.NATS.URL, cfg.Rebalance = "memory:"+t.Name(), 5*time.Second
	}))
}
