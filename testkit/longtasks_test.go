package testkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestPlainTasksBehindLongOnes: tasks of one CPU that were sent to a node in the expectation of short tasks, or to take turns with those of another driver, do not
// wait there for long ones while another node has an idle CPU. Those that belong on the node stay.
func TestPlainTasksBehindLongOnes(t *testing.T) {
	const lasts, there = 10 * time.Second, "n1"
	for name, c := range map[string]struct {
		label string // that the others ask for: "zone", which both nodes have, or "host", which is of the one with the long tasks
		own   bool   // the long tasks are of the driver that has the others
		asks  []raysys.Option
		n     int
		short int // tasks of a millisecond before
		stays int // of the others, those that ask for the node
	}{
		"of another driver":                {n: 8},
		"larger, of another driver":        {n: 4, asks: []raysys.Option{raysys.CPU(2)}},
		"of the same driver":               {n: 2, own: true},
		"larger, of the same driver":       {n: 4, own: true, asks: []raysys.Option{raysys.CPU(2)}},
		"of the same driver, after short":  {n: 2, own: true, short: 400},
		"of another, beside some to stay":  {n: 8, stays: 3},
		"of one driver, with some to stay": {n: 2, own: true, short: 400, stays: 3},
		"of another, beside some labelled": {n: 8, stays: 3, label: "host"},
		"of another, others labelled":      {n: 8, label: "zone"},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			rest := tasks.DefineIn(table, "rest", func(ctx context.Context, d time.Duration) (int, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx := k.T(), k.Context()
				k.Cluster().Ready()
				var short []raysys.Ref[int]
				for range c.short {
					short = append(short, rest.Go(ctx, time.Millisecond))
				}
				if _, err := raysys.GetAll(ctx, short).Values(); err != nil {
					t.Fatal(err)
				}
				of := ctx
				if !c.own {
					of = k.Cluster().Node(3).Context(ctx)
				}
				for range c.n {
					rest.With(append(c.asks, raysys.OnNode(there))...).Go(of, lasts)
				}
				k.Advance(300 * time.Millisecond)
				stays, other := rest.With(raysys.OnNode(there)), rest
				if c.label == "host" {
					stays = rest.With(raysys.Label("host", there))
				} else if c.label != "" {
					other = rest.With(raysys.Label(c.label, "a"))
				}
				for range c.stays {
					stays.Go(ctx, time.Second)
				}
				var others []raysys.Ref[int]
				for range 8 {
					others = append(others, other.Go(ctx, time.Second))
				}
				began := time.Now()
				if _, err := raysys.GetAll(ctx, others).Values(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > long.Form(8*time.Second, 4*time.Second+150*time.Millisecond) { // 50 ms for each of three tasks; the long ones take 10 s
					t.Errorf("eight tasks of 1 s took %v beside two CPUs without other work, want 4 s", took)
				}
			}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
				if i == 3 {
					cfg.Cluster.Role, cfg.Resources = system.Driver, raysys.Resources{}
				} else if i > 0 {
					cfg.Resources.CPU = 2
					cfg.Cluster.Labels = map[string]string{"zone": "a", "host": fmt.Sprint("n", i)}
				}
			}))
		})
	}
}
