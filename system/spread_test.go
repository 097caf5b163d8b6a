package system_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
)

type slowGrain struct{}

// Work takes a second and answers with its node.
func (slowGrain) Work(ctx context.Context) (string, error) {
	t, _, err := core.TurnOf(ctx)
	<-time.After(time.Second)
	return string(t.Job().Node), err
}

var (
	slows    = grains.DefineIn[slowGrain](table, "slow", grains.StatelessWorker(1))
	slowWork = grains.Method0(slows, "work", (*slowGrain).Work).Idempotent()
)

// TestOneStatelessKeyOnAllWorkers: a driver's calls to one key of a stateless kind use the workers of all nodes, and those of
// the nodes that are left when one has died.
func TestOneStatelessKeyOnAllWorkers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		var workers []*system.Node
		for i := range 3 {
			w, _ := b.join(raysys.NodeID(fmt.Sprint("w", i)), system.Worker)
			workers = append(workers, w)
		}
		d, ctx := b.join("d", system.Driver)
		for system.Connected(d) < 3 {
			<-time.After(100 * time.Millisecond)
		}
		calls := func(n int, want map[string]int) {
			t.Helper()
			begin := time.Now()
			var refs []raysys.Ref[string]
			for range n {
				refs = append(refs, slowWork.Call(ctx, slows.Get("x")))
			}
			by := map[string]int{}
			for _, r := range refs {
				v, err := r.Get(ctx)
				if err != nil {
					t.Error(err)
				}
				by[v]++
			}
			// A node runs its two calls one after the other. Had one waited while a node was idle, there would be a third second.
			if took := time.Since(begin); !maps.Equal(by, want) || took >= 3*time.Second {
				t.Errorf("%d calls of one second to one stateless key ran on %v within %v; want %v and 2 s", n, by, took, want)
			}
		}
		<-time.After(5 * time.Second)
		calls(6, map[string]int{"w0": 2, "w1": 2, "w2": 2})
		if err := workers[1].Kill(context.Background(), errors.New("test")); err != nil {
			t.Error(err)
		}
		for system.Connected(d) > 2 {
			<-time.After(100 * time.Millisecond)
		}
		calls(4, map[string]int{"w0": 2, "w2": 2})
	})
}
