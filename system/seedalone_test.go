package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
)

// till is a durable grain.
type till struct{ sum grains.State[int] }

// TestSeedRepeatsAlone: a program without a cluster that has a fixed seed and a data directory makes other calls in each of its
// processes, though their ids are the same. A call with a key is the same call in all of them. What an earlier process left
// takes no room.
func TestSeedRepeatsAlone(t *testing.T) {
	table := raysys.NewTable()
	tills := grains.DefineIn[till](table, "till", grains.Durable())
	add := grains.Method(tills, "add", func(g *till, _ context.Context, n int) (int, error) {
		g.sum.Value += n
		return g.sum.Value, nil
	})
	data := t.TempDir()
	var id raysys.TaskID
	for process := range 4 {
		n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test", Seed: 7})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx := n.Context(t.Context())
		call := add.Call(ctx, tills.Get("x"), 5)
		if sum, err := call.Get(ctx); sum != 5*(process+1) || err != nil {
			t.Errorf("process %d: the call gives %d, %v", process, sum, err)
		}
		if process > 0 && call.ID() != id {
			t.Errorf("process %d: the call is %s, and was %s", process, call.ID(), id)
		}
		id = call.ID()
		keyed := add.With(raysys.Key("order-17")).Call(ctx, tills.Get("y"), 3)
		if sum, err := keyed.Get(ctx); sum != 3 || err != nil {
			t.Errorf("process %d: the call with a key gives %d, %v", process, sum, err)
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if replies := storedReplies(t, data); replies > 2 {
			t.Errorf("process %d left %d replies, want at most its own to either call", process, replies)
		}
	}
}

// storedReplies counts the replies of durable grains in the data directory of a process that has ended.
func storedReplies(t *testing.T, data string) (n int) {
	t.Helper()
	kv, err := embedded.Open(embedded.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Close() }()
	layout, err := shardlog.OpenLayout(t.Context(), kv, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	session, err := kv.NewSession(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range layout.Shards {
		s, err := shardlog.Lead(t.Context(), shardlog.LeadConfig{KV: kv, Shard: i, Session: session, Node: "test"})
		if err != nil {
			t.Fatal(err)
		}
		s.Scan("c/", func(string, shardlog.Record) bool { n++; return true })
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return n
}
