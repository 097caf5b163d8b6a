package system_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// commitOfGroup has at called once, when a leader writes its first segment after it has asked another node to prepare bundles: all
// nodes have prepared theirs, and that is the commit. The shards of a leader are on a store of its own, which may break.
type commitOfGroup struct {
	mu       sync.Mutex // guards the rest
	leader   raysys.NodeID
	prepared raysys.NodeID // a node that was asked
	over     bool
	at       func(leader, prepared raysys.NodeID) flaky.Fault
}

// asks is called when a node asks another about bundles.
func (c *commitOfGroup) asks(from, to raysys.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == "" {
		c.leader, c.prepared = from, to
	}
}

func (c *commitOfGroup) call(from raysys.NodeID, call flaky.Call) flaky.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range call.Ops {
		if from == c.leader && !c.over && op.Verb.Writes() && strings.HasPrefix(op.Key, "log/") {
			c.over = true
			return c.at(c.leader, c.prepared)
		}
	}
	return flaky.None
}

// TestGroupSurvivesDeaths: on a real Consul, the leader of a group's shard dies before the commit of the group, or after it and before
// the nodes are told, or a node dies that has prepared a bundle. The group gets all of its bundles on nodes that live, Wait returns,
// nothing else is held anywhere, and after its removal nothing is.
func TestGroupSurvivesDeaths(t *testing.T) {
	server := consultest.Start(t, consulserver.Options{})
	for _, c := range []struct {
		name  string
		fault flaky.Fault
		dies  func(leader, prepared raysys.NodeID) raysys.NodeID
	}{
		{"leader before the commit", flaky.LoseCall, func(leader, _ raysys.NodeID) raysys.NodeID { return leader }},
		{"leader after the commit", flaky.LoseAnswer, func(leader, _ raysys.NodeID) raysys.NodeID { return leader }},
		{"node with a prepared bundle", flaky.None, func(_, prepared raysys.NodeID) raysys.NodeID { return prepared }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			workers, stores := map[raysys.NodeID]*system.Node{}, map[raysys.NodeID]*flaky.KV{}
			var watch commitOfGroup
			var killed sync.WaitGroup
			watch.at = func(leader, prepared raysys.NodeID) flaky.Fault {
				dies := c.dies(leader, prepared)
				stores[dies].Down(true)
				gone := make(chan struct{})
				killed.Go(func() {
					if err := workers[dies].Kill(context.Background(), errors.New("killed")); err != nil {
						t.Error(err)
					}
					close(gone)
				})
				if dies != leader {
					<-gone
				}
				return c.fault
			}
			prefix := "raysys/" + strings.ReplaceAll(c.name, " ", "-") + "/"
			open := func(name raysys.NodeID) func(*system.Config) {
				kv, err := consul.Open(consul.Config{Addresses: []string{server.Address()}, Prefix: prefix})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = kv.Close() })
				stores[name] = flaky.Wrap(store.KV(kv))
				return func(cfg *system.Config) {
					cfg.Cluster.Store = stores[name]
					cfg.Resources.CPU = 2
					standins.Of(cfg.Cluster).Chaos = func(to raysys.NodeID, _ wire.Class, kind wire.Kind) link.Action {
						if kind == wire.KindBundles {
							watch.asks(name, to)
						}
						return link.Pass
					}
				}
			}
			for _, name := range []raysys.NodeID{"a", "b", "c"} {
				workers[name], _ = f.join(name, system.Worker, open(name))
			}
			driver, ctx := f.join("d", system.Driver, open("d"), func(cfg *system.Config) { cfg.Resources.CPU = 0 })
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for name, kv := range stores {
				kv.Hook(func(call flaky.Call) flaky.Fault { return watch.call(name, call) })
			}
			// free is the CPU that nothing holds, of the nodes that live; false where a node does not answer.
			free := func() (sum float64, known bool) {
				st, err := driver.Status(ctx)
				if err != nil {
					return 0, false
				}
				alive := 0
				for _, n := range st.Nodes {
					if n.Error == "" && n.Role == string(system.Worker) {
						sum, alive = sum+n.Free.CPU, alive+1
					}
				}
				return sum, alive == 2 && len(st.Nodes) == 3
			}
			g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(2))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the commit of the group came", func() bool {
				watch.mu.Lock()
				defer watch.mu.Unlock()
				return watch.over
			})
			killed.Wait()
			dead := c.dies(watch.leader, watch.prepared)
			eventually(t, "the bundles are at the two nodes that live, and nothing else is held", func() bool {
				at, err := g.Nodes(ctx)
				if err != nil {
					t.Fatal(err)
				}
				sum, known := free()
				return at[0] != at[1] && at[0] != dead && at[1] != dead && known && sum == 2
			})
			for i := range 2 {
				if _, err := groupWhere.With(g.Bundle(i)).Go(ctx, 0).Get(ctx); err != nil {
					t.Errorf("a task in bundle %d: %v", i, err)
				}
			}
			if err := g.Remove(ctx); err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing is held", func() bool {
				sum, known := free()
				return known && sum == 4
			})
		})
	}
}
