package system

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/placing"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/remote"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/waitcycles"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// cluster is a node's part in its cluster: its membership, its connections, and the shards it leads. Start joins; Close leaves,
// and a node that is fenced ends it.
type cluster struct {
	node      *Node
	cfg       *ClusterConfig
	log       *zap.Logger
	kv        store.KV
	ownKV     bool // join opened kv, and leave closes it
	writers   shardlog.Writers
	runner    *runner.Runner
	mesh      *mesh.Mesh
	network   link.Transport
	certs     *certificates // nil where the node does not speak TLS
	member    *member.Member
	info      member.Info // the node's own record
	attempts  attempts    // to reach the store
	reg       *registry.Registry
	directory *registry.Directory
	times     mesh.Times
	refs      *refs.References
	prober    *waitcycles.Prober
	lineage   *lineage.Lineage // nil where that is not durable
	objects   *objects.Objects
	actors    *remote.Actors
	placer    *placing.Placer
	killed    atomic.Pointer[error] // the cause that Node.Kill was given; else nil
	wake      chan struct{}         // capacity 1: wakes duties

	ctx      context.Context // the runner's
	moves    sync.WaitGroup  // shards being taken or given up
	duty     sync.Mutex      // held while duties decides about shards
	retiring atomic.Bool     // the node takes no shard any more
	departed atomic.Int64    // when a worker that had drained left last; 0: none has

	mu      sync.Mutex // guards the rest
	jobs    map[wire.JobKey]*core.Job
	working map[int]bool // shards that are being taken or given up
}

// job returns this node's Job for work of a job of another node.
func (c *cluster) job(k wire.JobKey) *core.Job {
	own := c.node.job
	if k == (wire.JobKey{ID: own.ID, Run: own.Run, Namespace: own.Namespace, Weight: own.Weight}) {
		return own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[k]
	if j == nil {
		// Jobs come and go with drivers. Work that runs keeps its Job after this.
		if len(c.jobs) >= maxJobs {
			clear(c.jobs)
		}
		j = &core.Job{
			ID: k.ID, Run: k.Run, Namespace: k.Namespace, Weight: k.Weight, Node: own.Node, Runtime: own.Runtime, Table: own.Table, Top: own.Top, Inspect: own.Inspect,
			Unseen: own.Unseen, Panicked: own.Panicked, Closed: own.Closed, Objects: own.Objects,
			Prober: own.Prober, Gate: own.Gate, Tasks: own.Tasks,
		}
		c.jobs[k] = j
	}
	return j
}

// maxJobs bounds the jobs of other nodes that are remembered.
const maxJobs = 1024

// self names this node and its incarnation.
func (c *cluster) self() core.NodeKey { return c.mesh.Self() }

// suspended is the error for calls to named grains while the lease is out, else nil.
func (c *cluster) suspended() error {
	switch c.member.State() {
	case member.Active:
		return nil
	case member.Suspended:
		return fmt.Errorf("%w: node %s could not renew its lease", raysys.ErrSuspended, c.node.cfg.Name)
	case member.Fenced:
		return fmt.Errorf("%w: node %s", raysys.ErrFenced, c.node.cfg.Name)
	}
	return raysys.ErrClosed
}

// alive reports whether an incarnation is in the cluster.
func (c *cluster) alive(k core.NodeKey) bool { return c.mesh.Alive(k) }

// leader returns which node leads a shard, and false while none does.
func (c *cluster) leader(shard int) (core.NodeKey, bool) {
	l, ok := c.member.View().Leader(shard)
	if !ok {
		return core.NodeKey{}, false
	}
	k := core.NodeKey{Node: l.Node, Incarnation: l.Incarnation}
	return k, c.alive(k)
}

// now is the node's clock.
func (c *cluster) now() int64 { return c.runner.Now() }

// newMesh makes the node's connections; it does no I/O.
func (c *cluster) newMesh() *mesh.Mesh {
	n := c.node
	m := mesh.Config{
		Node: n.cfg.Name, Namespace: n.cfg.Namespace, Table: n.cfg.Table, Runner: c.runner, Log: c.log, Times: c.times,
		Job: c.job, Allow: func(cert *x509.Certificate, info member.Info) error { return allowed(cert, roleOf(info)) },
		Frames: map[wire.Kind]func(*mesh.Peer, []byte) error{
			wire.KindTasks:       func(p *mesh.Peer, b []byte) error { return n.tasks.HandleTasks(refs.Of(p), b) },
			wire.KindTaskResult:  func(p *mesh.Peer, b []byte) error { return n.tasks.HandleResult(refs.Of(p), b) },
			wire.KindTaskResults: func(p *mesh.Peer, b []byte) error { return n.tasks.HandleResults(refs.Of(p), b) },
			wire.KindTaskCancel:  func(p *mesh.Peer, b []byte) error { return n.tasks.HandleCancel(refs.Of(p), b) },
			wire.KindTaskFinal:   func(p *mesh.Peer, b []byte) error { return n.tasks.HandleFinal(refs.Of(p), b) },
			wire.KindLoad:        func(p *mesh.Peer, b []byte) error { return c.placer.OnLoad(refs.Of(p), b) },
			wire.KindActor:       func(p *mesh.Peer, b []byte) error { return c.actors.Receive(p, b) },
		},
		Questions: refs.Questions(),
		Sinks: map[wire.Kind]func(*mesh.Peer, []byte, int) link.Landing{
			wire.KindChunk: func(p *mesh.Peer, head []byte, size int) link.Landing { return c.objects.Land(p, head, size) },
		},

		Opened: func(p *mesh.Peer) { c.refs.Open(p) },
		Up:     c.up, Down: c.down,
	}
	m.Questions[wire.KindRegistry] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.reg.Serve(p.Key(), r, to) }
	m.Questions[wire.KindKeep] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.objects.Serve(p, r, to) }
	m.Questions[wire.KindBundles] = func(_ *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return n.groups.Serve(r, to) }
	m.Questions[wire.KindProbe] = func(_ *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.prober.Serve(r, to) }
	m.Questions[wire.KindActorBody] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.actors.ServeBody(p, r, to) }
	m.Questions[wire.KindAdmin] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return n.operator.Serve(p, r, to) }
	for _, k := range []wire.Kind{wire.KindCall, wire.KindCallResult, wire.KindCallCancel, wire.KindCallForget, wire.KindCallAsk, wire.KindCalls, wire.KindCallResults} {
		m.Frames[k] = func(p *mesh.Peer, b []byte) error { return n.grains.Receive(refs.Of(p), k, b) }
	}
	maps.Copy(m.Frames, refs.Frames())
	for _, k := range transfer.Kinds() {
		m.Frames[k] = func(p *mesh.Peer, b []byte) error { return c.objects.Handle(p, k, b) }
	}
	return mesh.New(m)
}

// up is called with a new connection.
func (c *cluster) up(mp *mesh.Peer) {
	p := refs.Of(mp)
	c.placer.Changed()
	c.node.tasks.PeerUp(p, placing.Offer(c.mesh.Info(p.Key())))
	c.node.grains.PeerUp(p)
	c.reg.Retry()
	c.poke() // a shard may have waited for a session with its preferred leader
}

// down is called when a connection is over.
func (c *cluster) down(mp *mesh.Peer, cause error) {
	if killed := c.killed.Load(); killed != nil {
		c.node.stop(*killed) // before work runs here again because its node seems gone
	}
	p := refs.Of(mp)
	c.placer.Changed()
	c.node.tasks.PeerDown(p, cause)
	c.node.grains.PeerDown(p, cause)
	c.objects.PeerDown(p.Key(), cause)
	c.actors.Down(mp)
}
