package system_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
)

// bubble is a cluster in virtual time, on a network and a store in memory.
type bubble struct {
	t   *testing.T
	kv  *embedded.Store
	net *linktest.Network
	end []func() // closes what join started
}

// inBubble runs f, and then closes the nodes that it joined, in their order.
func inBubble(t *testing.T, f func(b *bubble)) {
	t.Helper()
	shardlog.Warm()
	synctest.Test(t, func(t *testing.T) {
		kv, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		b := &bubble{t: t, kv: kv, net: linktest.NewNetwork(1)}
		defer func() {
			for _, end := range b.end {
				end()
			}
			<-time.After(time.Minute) // the count of dead letters ends by a timer of its own
			kv.Close()
		}()
		f(b)
	})
}

// join starts a node. The context is a driver's.
func (b *bubble) join(name raysys.NodeID, role system.Role, change ...func(*system.Config)) (*system.Node, context.Context) {
	b.t.Helper()
	cfg := system.Config{
		Name: name, Table: table, Namespace: "test", Cluster: over(b.net.Transport(name), system.ClusterConfig{Store: b.kv, Role: role}),
	}
	for _, c := range change {
		c(&cfg)
	}
	n, end := b.start(cfg)
	b.end = append(b.end, end)
	return n, n.Context(context.Background())
}

// start runs a worker until the returned function is called.
func (b *bubble) start(cfg system.Config) (*system.Node, func()) {
	b.t.Helper()
	if cfg.MemoryLimit == 0 { // ten looks a second would take the time of virtual days
		cfg.MemoryLimit = -1
	}
	n, err := system.New(cfg)
	if err == nil {
		err = n.Start(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return n, func() {
		if err := n.Close(context.Background()); err != nil {
			b.t.Error(err)
		}
	}
}

// over is a configuration of a node that talks over net.
func over(net link.Transport, c system.ClusterConfig) *system.ClusterConfig {
	standins.Of(&c).Network = net
	return &c
}
