package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
)

// acrossLighter are the rows of the tier with one fault of two nodes where the row has many of several.
var acrossLighter = map[string]func(context.Context, Plan) (measured, error){
	"locality": func(ctx context.Context, p Plan) (measured, error) {
		return locality(ctx, p, sizesOfLocality{sizes: []int{100 << 10, 1 << 20}, tasks: 12, most: 64 << 20, once: 6 << 20})
	},
	"tasks_50m": func(ctx context.Context, p Plan) (measured, error) {
		p.Tasks = 20_000
		return tasksInTenths(ctx, p)
	},
	"durable_calls":    func(ctx context.Context, p Plan) (measured, error) { return durableOver(ctx, p, 300) },
	"schedules_due":    func(ctx context.Context, p Plan) (measured, error) { return schedulesOver(ctx, p, 300) },
	"schedules_stored": func(ctx context.Context, p Plan) (measured, error) { return storedOver(ctx, p, 300) },
	"failover": func(ctx context.Context, p Plan) (measured, error) {
		return failovers(ctx, p, []int{2}, 2, fault{name: "SIGKILL", strike: (*process).strike, deadline: 5 * time.Second})
	},
}

// TestRowsAcross: each row between processes measures what it says. The short form has one of tasks and one of calls.
func TestRowsAcross(t *testing.T) {
	for _, row := range Rows(CrossProcess) {
		t.Run(row.Name, func(t *testing.T) {
			if row.Name != "tasks_sync" && row.Name != "actor_sync" {
				long.Only(t)
			}
			if row.Named {
				t.Parallel() // with what else waits; it has nothing to do but to wait
			}
			if f := acrossLighter[row.Name]; f != nil {
				row.measure = f
			}
			p := clustered(t)
			if row.Named {
				p.Rounds = 1
			}
			r, err := row.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			check(t, row, r)
			variants, _ := r.Detail["variants"].(map[string]any)
			switch row.Name {
			case "tasks_sync", "actor_sync":
				if list, _, err := layouts(); err != nil || len(variants) != len(list) {
					t.Errorf("variants %v of %d layouts, %v", variants, len(list), err)
				}
				for _, key := range []string{"request_bytes", "reply_bytes"} {
					if n, ok := r.Detail[key].(int); !ok || n < frameMin || n > 1000 {
						t.Errorf("%s is %v", key, r.Detail[key])
					}
				}
			case "failover":
				if len(variants) != 1 || variants["two_nodes"] == nil {
					t.Errorf("variants %v", variants)
				}
			case "failover_silence":
				if r.Value < 5e6 {
					t.Errorf("a silent node was replaced after %v us, within its lease", r.Value)
				}
			}
		})
	}
}

// The server may be one that stays: nothing of a cluster is left in it.
func TestClusterSweeps(t *testing.T) {
	p := clustered(t)
	var name string
	err := withCluster(t.Context(), p, 2, func(driver context.Context, c *cluster) error {
		name = c.name
		if err := c.tasksElsewhere(driver); err != nil {
			return err
		}
		return c.elsewhere(driver, counters.Get("x"))
	})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := openStore(p.Consul, "raysys/")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if keys, err := kv.Keys(t.Context(), name+"/"); err != nil || len(keys) > 0 {
		t.Errorf("keys left: %q, %v", keys, err)
	}
}

func TestOnlyWorkersCount(t *testing.T) {
	c := &cluster{}
	if err := c.isWorker(1); err == nil || !strings.Contains(err.Error(), "process 1") {
		t.Errorf("process 1 of no workers: %v", err)
	}
}

func TestUnsettled(t *testing.T) {
	c := &cluster{workers: make([]*process, 2)}
	good := func() inspect.Status {
		return inspect.Status{
			Nodes: []inspect.NodeStatus{
				{Name: "d", Role: string(system.Driver), State: "active", Peers: 2},
				{Name: "a", Role: string(system.Worker), State: "active", Peers: 2},
				{Name: "b", Role: string(system.Worker), State: "active", Peers: 2},
			},
			Shards: []inspect.ShardStatus{{Shard: 0, Node: "a"}, {Shard: 1, Node: "b"}},
		}
	}
	if why := c.unsettled(good()); why != "" {
		t.Errorf("a settled cluster: %s", why)
	}
	for want, spoil := range map[string]func(*inspect.Status){
		"2 nodes, not 3":         func(s *inspect.Status) { s.Nodes = s.Nodes[:2] },
		"node a: no answer":      func(s *inspect.Status) { s.Nodes[1].Error = "no answer" },
		"node b is suspect":      func(s *inspect.Status) { s.Nodes[2].State = "suspect" },
		"connected to 1 others":  func(s *inspect.Status) { s.Nodes[0].Peers = 1 },
		`shard 1 is led by ""`:   func(s *inspect.Status) { s.Shards[1].Node = "" },
		`shard 0 is led by "d"`:  func(s *inspect.Status) { s.Shards[0].Node = "d" },
		`shard 0 is led by "c1"`: func(s *inspect.Status) { s.Shards[0].Node = "c1" },
	} {
		s := good()
		spoil(&s)
		if why := c.unsettled(s); !strings.Contains(why, want) {
			t.Errorf("unsettled: %q, want %q", why, want)
		}
	}
}

func TestTakeOver(t *testing.T) {
	kv, err := openStore(clustered(t).Consul, "raysys/take-over/")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	for range 3 {
		took, err := takeOver(t.Context(), kv)
		if err != nil || took <= 0 || took > time.Minute {
			t.Fatalf("take-over in %v, %v", took, err)
		}
	}
	// The key goes with the session, so that nothing stays.
	if p, err := kv.Get(t.Context(), leaderKey); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the last: %+v, %v", p, err)
	}
}

func TestUnusableCluster(t *testing.T) {
	p := clustered(t)
	p.Node = system.Config{QueueTasks: -1}
	rows, err := Select([]string{"tasks_async"}, CrossProcess)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rows[0].Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "QueueTasks") {
		t.Errorf("a driver with a queue of -1: %v", err)
	}
	p = clustered(t)
	p.Self = "/nonexistent/raysys"
	if _, err := rows[0].Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "start child") {
		t.Errorf("a worker that cannot be started: %v", err)
	}
}

// A driver has no CPU, whatever the environment gives its nodes.
func TestMember(t *testing.T) {
	given := system.Config{Name: "mine", Resources: raysys.Resources{CPU: 4}, HeapFloor: 1}
	d := member(given, "c", "127.0.0.1:1", "driver", system.Driver)
	w := member(given, "c", "127.0.0.1:1", "w", system.Worker)
	if d.Name != "driver" || d.Resources.CPU != 0 || d.Cluster.Role != system.Driver || d.HeapFloor != 1 {
		t.Errorf("driver %+v", d)
	}
	if w.Name != "w" || w.Resources.CPU != 4 || w.Cluster.Role != system.Worker || w.Cluster.Name != "c" || w.Cluster.Consul != "127.0.0.1:1" {
		t.Errorf("worker %+v", w)
	}
}
