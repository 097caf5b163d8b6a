package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestShardLeaderKilled: the leader of a shard is killed in the middle of commits, again and again. What was acknowledged
// is there afterwards, and what was not shows at most once.
func TestShardLeaderKilled(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		prefix := fmt.Sprintf("leader%d-", runs.Add(1))
		keys := 60
		c.StoreSlow(3 * time.Millisecond) // so that a kill finds commits and answers on their way
		for i := range c.Size() + 1 {
			for j := range i {
				c.Delay(i, j, time.Millisecond, time.Millisecond)
			}
		}
		g := startCounting(k, written, prefix, keys, 12, 40*time.Millisecond)
		kills := long.Form(5, 50)
		for i := range kills {
			pause(time.Duration(k.Rand().Int64N(int64(2 * time.Second))))
			st, err := c.Status()
			if err != nil {
				t.Fatal(err)
			}
			leader := st.Shards[i%len(st.Shards)].Node
			for n := range c.Size() {
				if c.Name(n+1) == leader {
					c.Kill(n + 1)
					pause(time.Duration(k.Rand().Int64N(int64(time.Second))))
					c.Restart(n + 1)
				}
			}
			c.Ready()
		}
		g.end()
		g.readAll(t, k, prefix, keys)
		testkit.SingleActivation(t, counterLives)
		testkit.Linearizable(t, g.h, testkit.Register())
		answered, refused, open := g.h.Counts()
		if answered < 10*kills {
			t.Errorf("%d calls were answered: too few to show anything", answered)
		}
		if !t.Failed() {
			figure(t, "leader of a shard killed %d times: %d calls answered, %d refused, %d open; nothing acknowledged lost, nothing unacknowledged visible (linearizable)",
				kills, answered, refused, open)
		}
	}, testkit.Nodes(3), testkit.Seed(long.Seed()))
}
