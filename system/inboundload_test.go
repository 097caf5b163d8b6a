package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestInboundShapedLoad: what a node reports of the tasks of others that ask for other than one CPU is counted once: those that run by
// the CPUs that they have, those that wait as queued.
func TestInboundShapedLoad(t *testing.T) {
	info := member.Info{ID: "w", Resources: raysys.Resources{CPU: 4}}
	for _, c := range []struct {
		name            string
		load            loadreport.Load
		running, queued int
	}{
		{"one with one CPU runs", loadreport.Load{Busy: 1, Inbound: 1, InboundShaped: 1, Free: 3}, 1, 0},
		{"one without a CPU runs", loadreport.Load{Inbound: 1, InboundShaped: 1, Free: 4}, 1, 0},
		{"four run", loadreport.Load{Busy: 4, Inbound: 4, InboundShaped: 4}, 4, 0},
		{"two with two CPUs run, and one waits", loadreport.Load{Busy: 4, Inbound: 3, InboundShaped: 3, Queued: 1, Shaped: 1}, 4, 1},
		{"three of four wait for others", loadreport.Load{Inbound: 4, Parked: 3, Free: 3}, 1, 0},
		{"plain ones wait beside them", loadreport.Load{Busy: 2, Inbound: 5, InboundShaped: 1}, 4, 2},
	} {
		if n := system.Believed(info, c.load); n.Running != c.running || n.Queued != c.queued {
			t.Errorf("%s: %d run and %d wait, want %d and %d", c.name, n.Running, n.Queued, c.running, c.queued)
		}
	}
}

var loadHolds = tasks.DefineIn(table, "load holds", func(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
})

// TestInboundShapedSeen: so a driver sees the node to which it sent them.
func TestInboundShapedSeen(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		b.join("w", system.Worker, func(c *system.Config) { c.Resources.CPU, c.Resources.Memory = 4, 1<<20 })
		d, ctx := b.join("d", system.Driver)
		<-time.After(time.Second)
		ctx, cancel := context.WithCancel(ctx)
		var refs []raysys.Ref[int]
		want := func(what string, running, queued int) {
			t.Helper()
			<-time.After(time.Second)
			if n := system.Seen(d, "w"); n.Running != running || n.Queued != queued {
				t.Errorf("%s: %d run and %d wait, want %d and %d", what, n.Running, n.Queued, running, queued)
			}
		}
		refs = append(refs, loadHolds.With(raysys.Memory(1)).Go(ctx, 0))
		want("one with memory", 1, 0)
		refs = append(refs, loadHolds.With(raysys.CPU(2)).Go(ctx, 0))
		want("and one with two CPUs", 3, 0)
		refs = append(refs, loadHolds.With(raysys.CPU(2)).Go(ctx, 0))
		want("and one that waits for as many", 3, 1)
		cancel()
		for _, r := range refs {
			if _, err := r.Get(context.WithoutCancel(ctx)); err == nil {
				t.Error("a cancelled task ended well")
			}
		}
	})
}
