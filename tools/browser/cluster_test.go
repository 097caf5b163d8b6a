package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

const (
	manyTasks  = 100_000
	manyGrains = 10_000
	badKey     = `1/<script>alert("%2F")</script><img src=x onerror=alert(1)>`
	stateOwner = "ada <b>lovelace</b>"
)

type account struct {
	Money grains.State[struct {
		Amount int
		Owner  string
	}]
}

func (a *account) Add(ctx context.Context, n int) (int, error) {
	a.Money.Value.Amount += n
	a.Money.Value.Owner = stateOwner
	return a.Money.Value.Amount, a.Money.Write(ctx)
}

// Settle waits for a task that does not end.
func (a *account) Settle(ctx context.Context) (int, error) {
	return load.With(raysys.OnNode("w2"), raysys.Detached("nightly/1")).Go(ctx).Get(ctx)
}

func (a *account) Touch(context.Context) (int, error) { return 0, nil }

var (
	square = tasks.Define("square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	parse  = tasks.Define("parse", func(_ context.Context, n int) (int, error) { return 0, fmt.Errorf("no row %d in <table>", n) })
	load   = tasks.Define0("load", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	report = tasks.Define0("report", func(ctx context.Context) (int, error) {
		return settle.Call(ctx, accounts.Get("blocked")).Get(ctx)
	})
	accounts = grains.Define[account]("account")
	add      = grains.Method(accounts, "add", (*account).Add)
	settle   = grains.Method0(accounts, "settle", (*account).Settle).With(raysys.NoDeadline())
	touch    = grains.Method0(accounts, "touch", (*account).Touch)
)

// cluster is three workers, of which the first serves the page, and a driver.
type cluster struct {
	w1, w3 *system.Node
	url    string
	ctx    context.Context // of the driver
}

func start(t *testing.T, page system.PageConfig) *cluster {
	t.Helper()
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	join := func(name raysys.NodeID, role system.Role, change func(*system.Config)) *system.Node {
		cfg := system.Config{Name: name, Namespace: "browser", Cluster: &system.ClusterConfig{Store: kv, Role: role}, Resources: raysys.Resources{CPU: 2}}
		if role == system.Driver {
			cfg.Resources.CPU = 0
		}
		change(&cfg)
		n, err := system.New(cfg)
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := n.Close(ctx); err != nil && !errors.Is(err, raysys.ErrClosed) {
				t.Error(err)
			}
		})
		return n
	}
	none := func(*system.Config) {}
	c := &cluster{w1: join("w1", system.Worker, func(cfg *system.Config) { cfg.HTTP, cfg.Page = address, page })}
	join("w2", system.Worker, none)
	c.w3 = join("w3", system.Worker, none)
	c.ctx = join("driver", system.Driver, none).Context(context.Background())
	c.url = "http://" + address
	return c
}

// busy has the cluster work, more and less, until the returned function is called.
func (c *cluster) busy() (end func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			raysys.GetAll(ctx, square.Map(ctx, make([]int, 500*(3+i%7)))).Values()
			_, _ = parse.Go(ctx, i).Get(ctx)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// work has the cluster do what the pages show.
func (c *cluster) work(t *testing.T) {
	t.Helper()
	ctx := c.ctx
	in := make([]int, manyTasks)
	for i := range in {
		in[i] = i
	}
	if _, err := raysys.GetAll(ctx, square.Map(ctx, in)).Values(); err != nil {
		t.Fatal(err)
	}
	calls := make([]raysys.Ref[int], manyGrains)
	for i := range calls {
		calls[i] = touch.Call(ctx, accounts.Get(fmt.Sprintf("k%05d", i)))
	}
	if _, err := raysys.GetAll(ctx, calls).Values(); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		if _, err := parse.Go(ctx, i).Get(ctx); err == nil {
			t.Fatal("it does not fail")
		}
	}
	if _, err := add.Call(ctx, accounts.Get(badKey), 7).Get(ctx); err != nil {
		t.Fatal(err)
	}
	report.With(raysys.OnNode("w1")).Go(ctx)
}
