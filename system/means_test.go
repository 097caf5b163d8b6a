package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	meansShort = tasks.DefineIn(table, "means short", func(context.Context, int) (int, error) { <-time.After(time.Millisecond); return 0, nil })
	meansLong  = tasks.DefineIn(table, "means long", func(context.Context, int) (int, error) { <-time.After(time.Second); return 0, nil })
)

// TestWaitIsOfFunctions: of two nodes whose CPU is taken a task goes to that where ten tasks of a millisecond wait, not to that
// where one of a second does, whichever of the two functions ran last.
func TestWaitIsOfFunctions(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		contexts := map[raysys.NodeID]context.Context{}
		join := func(name raysys.NodeID) {
			_, contexts[name] = b.join(name, system.Worker, func(c *system.Config) {
				c.Resources.CPU, c.Cluster.Labels = 1, map[string]string{"node": string(name), "pool": "x"}
			})
		}
		join("a")
		join("b")
		_, ctx := b.join("d", system.Driver)
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		for _, name := range []string{"a", "b"} {
			for _, warm := range []tasks.Task[int, int]{meansLong, meansShort, meansLong, meansShort, meansShort} {
				if _, err := warm.With(raysys.Label("node", name)).Go(ctx, 0).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			groupWaits.With(raysys.Label("node", name)).Go(ctx, 0)
		}
		<-time.After(time.Second)
		for range 10 {
			meansShort.Go(contexts["a"], 0)
		}
		meansLong.Go(contexts["b"], 0)
		<-time.After(time.Second)
		for range 8 {
			r := groupWhere.With(raysys.Label("pool", "x")).Go(ctx, 0)
			s, err := raysys.Explain(ctx, r)
			if err != nil || len(s.Placed) != 1 || s.Placed[0].Node != "a" {
				t.Errorf("where ten short tasks wait on a and a long one on b: %v\n%v", err, s)
			}
			r.Cancel()
			<-time.After(time.Second)
		}
	})
}
