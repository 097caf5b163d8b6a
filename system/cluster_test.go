package system_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// where reports on which node it ran.
var where = tasks.DefineIn(table, "where", func(ctx context.Context, n int) (string, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d", t.Job().Node, n), nil
})

// fleet is a cluster of nodes in this process, over loopback TCP and one embedded store.
type fleet struct {
	t     testing.TB
	kv    *embedded.Store
	nodes []*system.Node
}

func newFleet(t testing.TB) *fleet {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return &fleet{t: t, kv: kv}
}

// join starts a node, which is closed with the test. A worker is a host when join returns, and all nodes that live know
// it.
func (f *fleet) join(name raysys.NodeID, role system.Role, change ...func(*system.Config)) (*system.Node, context.Context) {
	f.t.Helper()
	var kv store.KV = flaky.Wrap(f.kv)
	cfg := system.Config{
		Name: name, Table: table, Namespace: "test", Logger: zaptest.NewLogger(f.t, zaptest.Level(zap.WarnLevel)).Named(string(name)),
		Cluster: &system.ClusterConfig{Store: kv, Role: role},
	}
	for _, c := range change {
		c(&cfg)
	}
	n, err := system.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Start(ctx); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			f.t.Error(err)
		}
	})
	f.nodes = append(f.nodes, n)
	if role == system.Worker {
		eventually(f.t, fmt.Sprintf("%s is a host, and all nodes know it", cfg.Name), func() bool {
			return !slices.ContainsFunc(f.nodes, func(o *system.Node) bool {
				return o.Err() == nil && !system.KnownHost(o, cfg.Name)
			})
		})
	}
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

// account keeps its balance.
type account struct {
	Balance grains.State[int]
}

func (a *account) Deposit(ctx context.Context, n int) (int, error) {
	a.Balance.Value += n
	return a.Balance.Value, a.Balance.Write(ctx)
}

func (a *account) Where(ctx context.Context) (string, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	return string(t.Job().Node), nil
}

// Retire lets the activation go.
func (a *account) Retire(ctx context.Context) error { return grains.Deactivate(ctx) }

var (
	retire   = grains.Action0(accounts, "retire", (*account).Retire)
	accounts = grains.DefineIn[account](table, "account")
	deposit  = grains.Method(accounts, "deposit", (*account).Deposit)
	home     = grains.Method0(accounts, "home", (*account).Where)
)

// TestGrainsLiveOnWorkers: every caller finds the one activation, and its state outlives it.
func TestGrainsLiveOnWorkers(t *testing.T) {
	f := newFleet(t)
	_, w1 := f.join("w1", system.Worker)
	_, w2 := f.join("w2", system.Worker)
	_, d := f.join("d", system.Driver)
	homes := map[string]int{}
	for i := range 100 {
		g := accounts.Get(fmt.Sprint("a", i))
		for n, ctx := range []context.Context{d, w1, w2} {
			v, err := deposit.Call(ctx, g, 1).Get(ctx)
			if v != n+1 || err != nil {
				t.Fatal(i, n, v, err)
			}
		}
		h, err := home.Call(d, g).Get(d)
		if err != nil || h == "d" {
			t.Fatal(h, err)
		}
		homes[h]++
	}
	if len(homes) != 2 {
		t.Error(homes)
	}
}

// TestStateMovesWithTheGrain: a drained node's grains go on elsewhere with what they had.
func TestStateMovesWithTheGrain(t *testing.T) {
	f := newFleet(t)
	n1, _ := f.join("w1", system.Worker)
	_, d := f.join("d", system.Driver)
	for i := range 50 {
		if v, err := deposit.Call(d, accounts.Get(fmt.Sprint(i)), 7).Get(d); v != 7 || err != nil {
			t.Fatal(v, err)
		}
	}
	f.join("w2", system.Worker)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n1.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		g := accounts.Get(fmt.Sprint(i))
		if v, err := deposit.Call(d, g, 1).Get(d); v != 8 || err != nil {
			t.Fatal(i, v, err)
		}
		if h, err := home.Call(d, g).Get(d); h != "w2" || err != nil {
			t.Fatal(h, err)
		}
	}
}

// TestCloseBeforeStart: a node of a cluster that never joined closes like any other.
func TestCloseBeforeStart(t *testing.T) {
	f := newFleet(t)
	n, err := system.New(system.Config{Table: table, Cluster: &system.ClusterConfig{Store: f.kv}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
