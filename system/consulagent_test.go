package system_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// plainCount is a grain without State: it begins anew when its node does.
type plainCount struct{ n int }

func (p *plainCount) Add(context.Context, int) (int, error) { p.n++; return p.n, nil }

var (
	plainCounts = grains.DefineIn[plainCount](table, "plain-count")
	addPlain    = grains.Method(plainCounts, "add", (*plainCount).Add)
)

// TestConsulAgentRestarts: the agent of Consul on a worker's and a driver's host is stopped in good order and started
// again; no call is lost, and a grain in memory goes on counting.
func TestConsulAgentRestarts(t *testing.T) {
	server := consultest.Start(t, consulserver.Options{})
	agent := consultest.Start(t, consulserver.Options{Client: true, Join: server})
	f := newFleet(t)
	by := func(s *consulserver.Server) func(*system.Config) {
		kv, err := consul.Open(consul.Config{Addresses: []string{s.Address()}, Prefix: "raysys/default/"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kv.Close() })
		return func(cfg *system.Config) { cfg.Cluster.Store = kv }
	}
	f.join("n1", system.Worker, by(agent))
	f.join("n2", system.Worker, by(server))
	_, ctx := f.join("d", system.Driver, by(agent))
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	counted := 0
	add := addPlain.With(raysys.OnNode("n1")) // it lives where the agent is, and is called from there
	count := func() {
		t.Helper()
		n, err := add.Call(ctx, plainCounts.Get("a"), 1).Get(ctx)
		if counted++; err != nil || n != counted {
			t.Fatalf("call %d counted %d: %v", counted, n, err)
		}
	}
	count()
	add = addPlain
	restarted := make(chan error, 1)
	go func(done chan<- error) {
		name := agent.Name()
		err := agent.Stop()
		if err == nil { // the servers do it as soon as they notice
			_, err = server.Call(ctx, http.MethodPut, "/v1/catalog/deregister", map[string]string{"Node": name})
		}
		if err == nil {
			err = agent.Start(ctx)
		}
		done <- err
	}(restarted)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for left := 500; left > 0; <-tick.C { // after the restart for 5 s at least, in which each node renews its session
		count()
		if restarted == nil {
			left--
			continue
		}
		select {
		case err := <-restarted:
			if err != nil {
				t.Fatal(err)
			}
			restarted = nil
		default:
		}
	}
	t.Logf("%d calls", counted)
}
