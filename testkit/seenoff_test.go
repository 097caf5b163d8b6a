package testkit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestSeenOffGrainElsewhere: a node sees a grain off to one of two nodes with a free device, and the leader may place it on the other.
// The device that the grain did not take has a task of that node before it counts as free in any case, after 300 ms: in the long form within 50 ms.
func TestSeenOffGrainElsewhere(t *testing.T) {
	withSeeds(t, "drawn", seenOffElsewhere)
}

func seenOffElsewhere(t *testing.T, seed testkit.Option) {
	table := raysys.NewTable()
	p := newDeviceProgram(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		p.u = newUsage()
		usageNow = p.u
		c, ctx := k.Cluster(), k.Context()
		for round := range 40 {
			var gates []string
			hold := func(name string) {
				key := fmt.Sprint(name, " ", round)
				gates = append(gates, key)
				p.method.Call(ctx, p.kind.Get(key), use{Until: key})
			}
			for i := range 3 {
				hold(fmt.Sprint("holder ", i))
				<-p.u.began
			}
			hold("waiter")
			k.Advance(time.Second + 37*time.Millisecond)
			from := waitsAt(t, c)
			stays := ""
			for _, key := range gates[:3] {
				if p.u.of(key)[0].node == from {
					stays = key
				} else {
					p.u.free(key)
				}
			}
			<-p.u.began // the waiter
			for i := 1; i <= 3; i++ {
				if c.Name(i) != from {
					continue
				}
				began := time.Now()
				if at, err := p.task.Go(c.Node(i).Context(ctx), 0).Get(ctx); err != nil {
					t.Error(err)
				} else if d := time.Since(began); d > long.Form(150*time.Millisecond, 50*time.Millisecond) {
					t.Errorf("round %d: a task waited for %v for the device of node %s, which was free", round, d, at)
				}
			}
			p.u.free(gates[3])
			p.u.free(stays)
			k.Advance(time.Second)
		}
	}, seed, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU, cfg.DeviceSource = 8, newSource(i, 1)
		}
	}))
}
