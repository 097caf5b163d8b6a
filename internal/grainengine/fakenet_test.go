package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/actortest"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
)

// fakeNet is several engines in one process: their registry, their store and the links between them.
type fakeNet struct {
	t     testing.TB
	table *raysys.Table
	store *fakeStore
	keeps *fakeKeeper
	job   raysys.JobID

	mu      sync.Mutex // guards the rest
	nodes   []*fakeNode
	places  map[graindir.ID]graindir.Place
	seq     uint64
	links   []*fakeLink
	choose  func(id graindir.ID, asks *fakeNode, alive []*fakeNode) *fakeNode // nil: round about
	turn    int
	counts  map[string]int
	fault   func(op string, asks *fakeNode, id graindir.ID) error // before the registry does anything
	wants   []graindir.Wanted
	avoids  []graindir.Place
	slow    func(op string) <-chan struct{} // done is called when it closes; nil for at once
	onWire  func(l *fakeLink, from *fakeNode, kind wire.Kind, frame []byte)
	calls   sync.WaitGroup // answers on their way
	waiting int            // answers the test holds
	large   int            // frames that went by SendLarge
}

func newNet(t testing.TB, table *raysys.Table) *fakeNet {
	net := emptyNet(table)
	net.t = t
	t.Cleanup(net.close)
	return net
}

func emptyNet(table *raysys.Table) *fakeNet {
	net := &fakeNet{table: table, places: map[graindir.ID]graindir.Place{}, counts: map[string]int{}, job: raysys.JobID{Hi: 1, Lo: 2}}
	net.keeps = &fakeKeeper{net: net, objects: map[raysys.TaskID][]byte{}, open: map[raysys.TaskID]bool{}}
	net.store = &fakeStore{
		net: net, records: map[storeKey]graindir.Record{}, counters: map[graindir.ID]fakeCounter{},
		replies: map[graindir.ID]map[raysys.TaskID][]byte{},
		sides:   map[graindir.ID]map[string][]byte{},
	}
	return net
}

func (net *fakeNet) close() {
	net.mu.Lock()
	net.slow, net.fault = nil, nil
	nodes := slices.Clone(net.nodes)
	net.mu.Unlock()
	net.store.heal()
	for _, n := range nodes {
		n.close()
	}
	net.calls.Wait()
}

// fakeNode is one node. It implements core.Runtime and graindir.Cluster, and is a graindir.States under its own
// lease.
type fakeNode struct {
	net         *fakeNet
	name        raysys.NodeID
	incarnation uint64
	wheel       *wheel.Wheel
	pool        *goroutines.Pool
	actors      *actor.ActorSystem
	engine      *grainengine.Engine
	job         *core.Job
	top         *core.Turn
	ending      chan struct{}
	once        sync.Once
	roots       uint64

	// guarded by net.mu
	dead     bool  // the registry gives its grains away
	draining bool  // no grain is placed here
	lease    error // of Suspended and Lease
	driver   bool
	peers    map[string]*fakePeer
	unseen   []string
	warnings []string
}

// add makes a node that hosts grains, addAs may make a driver, addAlone one of no cluster, addBare one without a store.
func (net *fakeNet) add(name string) *fakeNode { return net.addAs(name, false) }

func (net *fakeNet) addAs(name string, driver bool) *fakeNode {
	return net.make(name, driver, func(*grainengine.Config) {})
}

func (net *fakeNet) addAlone(name string) *fakeNode {
	return net.make(name, false, func(cfg *grainengine.Config) { cfg.Cluster = nil })
}

func (net *fakeNet) addBare(name string) *fakeNode {
	return net.make(name, false, func(cfg *grainengine.Config) { cfg.Cluster, cfg.States = nil, nil })
}

func (net *fakeNet) make(name string, driver bool, change func(*grainengine.Config)) *fakeNode {
	n := &fakeNode{net: net, name: raysys.NodeID(name), incarnation: 1, driver: driver, ending: make(chan struct{}), peers: map[string]*fakePeer{}}
	net.mu.Lock()
	for _, old := range net.nodes {
		if old.name == n.name {
			n.incarnation = max(n.incarnation, old.incarnation+1)
		}
	}
	net.mu.Unlock()
	n.wheel = wheel.New()
	n.pool = goroutines.New(8)
	n.actors = actortest.NewSystem()
	n.job = &core.Job{
		ID: net.job, Namespace: "test", Node: n.name, Runtime: n, Table: net.table, Closed: n.ending,
		Unseen: func(work string, err error) {
			net.mu.Lock()
			n.unseen = append(n.unseen, work+": "+err.Error())
			net.mu.Unlock()
		},
	}
	id := raysys.TaskID(net.job).Child(n.incarnation << 32).Child(uint64(len(net.nodes)))
	n.top = core.NewRoot(n.job, context.Background(), nil, id)
	n.job.Top = n.top
	cfg := grainengine.Config{
		Actors: n.actors, Pool: n.pool, Table: net.table, CPUs: 2, Now: n.wheel.Now, Rough: n.wheel.Now, Unseen: n.job.Unseen,
		Hooks: core.NewRoot(n.job, context.Background(), nil, id.Child(1<<62)),
		Warn: func(event, grain, detail string) {
			net.mu.Lock()
			defer net.mu.Unlock()
			n.warnings = append(n.warnings, event+": "+grain+": "+detail)
		},
		Cluster: n, States: fakeStates{n}, Retainer: net.keeps, Hosts: !driver,
	}
	change(&cfg)
	n.engine = grainengine.NewEngine(cfg)
	net.mu.Lock()
	net.nodes = append(net.nodes, n)
	net.mu.Unlock()
	return n
}

// context returns a driver's context on the node.
func (n *fakeNode) context() context.Context { return n.under(context.Background()) }

func (n *fakeNode) under(ctx context.Context) context.Context {
	n.net.mu.Lock()
	n.roots++
	i := n.roots
	n.net.mu.Unlock()
	return core.NewContext(core.NewRoot(n.job, ctx, n.top, n.top.ID().Child(i)))
}

// kill is the end of the process as others see it: links reset, grains given away. The engine goes on for itself.
func (n *fakeNode) kill() {
	n.net.mu.Lock()
	n.dead = true
	n.lease = fmt.Errorf("%w: fenced", raysys.ErrSuspended)
	n.net.mu.Unlock()
	n.cut(errors.New("reset by test"))
}

// suspend lets the lease run out, or gives it back.
func (n *fakeNode) suspend(out bool) {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if n.lease = nil; out {
		n.lease = fmt.Errorf("%w: by test", raysys.ErrSuspended)
	}
}

// cut resets all links of the node.
func (n *fakeNode) cut(cause error) {
	n.net.mu.Lock()
	links := slices.Clone(n.net.links)
	n.net.mu.Unlock()
	for _, l := range links {
		if l.ends[0].local == n || l.ends[1].local == n {
			l.cut(cause)
		}
	}
}

// sentAll waits until what the node sent was taken from its links: a node that closes in order sends its last words.
func (n *fakeNode) sentAll() {
	n.net.mu.Lock()
	var peers []*fakePeer
	for _, p := range n.peers {
		peers = append(peers, p.twin)
	}
	n.net.mu.Unlock()
	for _, p := range peers {
		for empty := false; !empty; runtime.Gosched() {
			p.mu.Lock()
			empty = p.closed || p.paused || len(p.queues[0])+len(p.queues[1])+len(p.queues[2])+len(p.queues[3]) == 0
			p.mu.Unlock()
		}
	}
}

func (n *fakeNode) drain(ctx context.Context) error {
	n.net.mu.Lock()
	n.draining = true
	n.net.mu.Unlock()
	return n.engine.Drain(ctx)
}

func (n *fakeNode) close() {
	n.once.Do(func() {
		n.net.mu.Lock()
		n.dead = true
		n.net.mu.Unlock()
		close(n.ending)
		n.top.Cancel(raysys.ErrClosed)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := n.engine.Close(ctx); err != nil {
			n.net.t.Error(n.name, err)
		}
		n.sentAll()
		n.cut(raysys.ErrClosed)
		n.wheel.Stop()
		n.pool.Close()
		n.actors.Shutdown()
	})
}
