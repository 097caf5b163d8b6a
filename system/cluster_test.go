package system_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/store/flaky"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// where reports on which node it ran.
var where = tasks.DefineIn(table, "where", func(ctx context.Context, n int) (string, error) {
	t, _, err := raysys.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d", t.Job().Node, n), nil
})

// fleet is a cluster of nodes in this process, over loopback TCP and one embedded store.
type fleet struct {
	t  testing.TB
	kv *embedded.Store
}

func newFleet(t testing.TB) *fleet {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return &fleet{t, kv}
}

// join starts a node. It is closed with the test.
func (f *fleet) join(name raysys.NodeID, role system.Role, change ...func(*system.Config)) (*system.Node, context.Context) {
	f.t.Helper()
	var kv store.KV = flaky.Wrap(f.kv)
	cfg := system.Config{
		Name: name, Table: table, Namespace: "test", Logger: zaptest.NewLogger(f.t, zaptest.Level(zap.WarnLevel)).Named(string(name)),
		Cluster: &system.Cluster{Store: kv, Role: role},
	}
	for _, c := range change {
		c(&cfg)
	}
	n, err := system.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Start(ctx); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			f.t.Error(err)
		}
	})
	return n, n.Context(context.Background())
}

// TestTasksRunOnWorkers: a driver without CPUs has its tasks done by the others.
func TestTasksRunOnWorkers(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	f.join("w2", system.Worker)
	_, ctx := f.join("d", system.Driver)
	var mu sync.Mutex
	seen := map[string]int{}
	refs := make([]raysys.Ref[string], 1000)
	for i := range refs {
		refs[i] = where.Go(ctx, i)
	}
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var node string
		var n int
		fmt.Sscanf(v, "%s %d", &node, &n)
		if n != i || node == "d" {
			t.Fatalf("task %d: %q", i, v)
		}
		mu.Lock()
		seen[node]++
		mu.Unlock()
	}
	t.Log(seen)
}
