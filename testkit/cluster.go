package testkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
)

// Nodes makes the Kit a cluster of n workers, n1 to n<n>, in this process, and a node of the test's own, which hosts
// nothing. They talk over a network in memory and share a store in memory; see Cluster for what can happen to them.
func Nodes(n int) Option { return func(o *options) { o.nodes = n } }

// TTL sets the lease of the nodes: 10 s in virtual time and 3 s otherwise.
func TTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// Each changes the configuration of node i, 0 being the test's own, before each of its starts: its labels, role,
// resources.
func Each(change func(i int, cfg *system.Config)) Option { return func(o *options) { o.each = change } }

// realTTL is long enough for a busy machine to renew in, and short enough to wait for.
const realTTL = 3 * time.Second

// Cluster is the nodes of a Kit with the network and the store between them, and all that can happen to these. A node
// is named by its number: 1 for n1, and 0 for the test's own. Faults last until Heal, and the end of the test.
type Cluster struct {
	k     *Kit
	net   *linktest.Network
	chaos *linktest.Chaos
	clock *storeClock
	kv    atomic.Pointer[embedded.Store]
	hosts []*host // by number
	base  options
	loose bool

	closing context.Context // ends when the test does
	close   context.CancelFunc

	mu      sync.Mutex // guards the rest
	down    map[int]bool
	slow    time.Duration
	played  map[Fault]int // see Played
	watches []watched
}

// watched is the strict mode of one life of a node.
type watched struct {
	name   raysys.NodeID
	strict *strict
}

// newCluster starts the nodes one after the other, the test's own last, and waits until it can use them all.
func newCluster(k *Kit, o options) *Cluster {
	k.t.Helper()
	c := &Cluster{k: k, net: linktest.NewNetwork(k.seed), chaos: linktest.NewChaos(k.seed), clock: newStoreClock(), base: o, loose: o.loose, down: map[int]bool{}}
	c.closing, c.close = context.WithCancel(context.Background())
	kv, err := embedded.Open(embedded.Config{Clock: c.clock})
	if err != nil {
		k.t.Fatalf("testkit: open the store: %v", err)
	}
	c.kv.Store(kv)
	for i := range o.nodes + 1 {
		name := raysys.NodeID(fmt.Sprintf("n%d", i))
		if i == 0 {
			name = "test"
		}
		c.hosts = append(c.hosts, &host{c: c, index: i, name: name, turn: make(chan struct{}, 1), disk: newSlowDisk()})
	}
	k.t.Cleanup(c.end)
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	for _, h := range append(c.hosts[1:len(c.hosts):len(c.hosts)], c.hosts[0]) {
		l, err := h.start(ctx, 0)
		if err != nil {
			k.t.Fatalf("testkit: start node %s: %v", h.name, err)
		}
		if h.index > 0 {
			h.follow(l)
		}
	}
	return c
}

// config is what node i starts with.
func (c *Cluster) config(i int) system.Config {
	cfg := c.base.cfg
	cl := system.ClusterConfig{}
	if cfg.Cluster != nil {
		cl = *cfg.Cluster
	}
	cfg.Cluster = &cl
	cl.Role, cl.TTL, cl.Consul = system.Worker, c.base.ttl, ""
	if i == 0 {
		cl.Role, cfg.Resources = system.Driver, raysys.Resources{}
		cfg.Seed = c.k.seed
	}
	if cl.TTL == 0 && !c.k.virtual {
		cl.TTL = realTTL
	}
	if cfg.Logger == nil && os.Getenv("RAYSYS_LOG") != "" {
		if env, err := system.FromEnv(); err == nil {
			cfg.Logger = env.Logger
		}
	}
	if cfg.MemoryLimit == 0 { // its nodes are in one process, whose memory is that of all
		cfg.MemoryLimit = -1
	}
	if c.base.each != nil {
		c.base.each(i, &cfg)
	}
	return cfg
}

func (c *Cluster) store() store.KV { return c.kv.Load() }

func (c *Cluster) host(i int) *host {
	if i < 0 || i >= len(c.hosts) {
		c.k.t.Helper()
		c.k.t.Fatalf("testkit: there is no node %d: nodes are 1 to %d, and 0 is the test's own", i, len(c.hosts)-1)
	}
	return c.hosts[i]
}

// storeOf says what node i has of the store when it starts.
func (c *Cluster) storeOf(i int) (down bool, slow time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down[i], c.slow
}

func (c *Cluster) watch(name raysys.NodeID, s *strict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches = append(c.watches, watched{name, s})
}

// report fails the test for an error that no verb returns.
func (c *Cluster) report(node raysys.NodeID, err error) {
	if err != nil {
		c.k.t.Errorf("testkit: node %s: %v", node, err)
	}
}

// Size is how many nodes there are beside the test's own.
func (c *Cluster) Size() int { return len(c.hosts) - 1 }

// Node is node i in its current life, nil while it is down.
func (c *Cluster) Node(i int) *system.Node {
	if l := c.host(i).current(); l != nil {
		return l.node
	}
	return nil
}

// Name is the name of node i.
func (c *Cluster) Name(i int) raysys.NodeID { return c.host(i).name }

// Network is the network between the nodes, for faults that have no verb here.
func (c *Cluster) Network() *linktest.Network { return c.net }

// Store is the store that the nodes share, past all its faults.
func (c *Cluster) Store() store.KV { return c.store() }

// Status is the cluster as the test's own node sees it.
func (c *Cluster) Status() (inspect.Status, error) {
	n := c.Node(0)
	if n == nil {
		return inspect.Status{}, raysys.ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusLimit)
	defer cancel()
	return n.Status(ctx)
}

// Ready waits until the test's own node sees every node that runs, and each shard has a leader among them.
func (c *Cluster) Ready() {
	c.k.t.Helper()
	awaitReady(c.k.t, func() (names []raysys.NodeID) {
		for _, h := range c.hosts {
			if h.current() != nil {
				names = append(names, h.name)
			}
		}
		return names
	}, c.Status)
}

// end closes the nodes, the test's own first, and reports what strict mode saw.
func (c *Cluster) end() {
	c.close()
	c.Heal()
	for _, h := range c.hosts {
		if l := h.current(); l != nil {
			h.close(l)
		}
	}
	for _, h := range c.hosts {
		h.owned.Wait()
		if l := h.current(); l != nil { // it joined again meanwhile
			h.close(l)
		}
	}
	c.kv.Load().Close()
	c.mu.Lock()
	watches := c.watches
	c.mu.Unlock()
	for _, w := range watches {
		for _, s := range w.strict.changed() {
			c.k.t.Errorf("testkit: node %s: %s", w.name, s)
		}
	}
}
