package node

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
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
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/tlsfiles"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/waitcycles"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
)

// Config says what a node is in its cluster.
type Config struct {
	Cluster           string      // its name
	Record            member.Info // the node's, but for what the join finds out
	Role              string      // in words: worker, driver or both
	Namespace         string
	Table             *raysys.Table
	Strategies        map[raysys.Strategy]placement.Strategy
	Consul            string // where the store is, for messages
	Listen, Advertise string
	Cert, CA          string // the files of TLS; empty without
	TTL               time.Duration
	Silence           time.Duration // see member.Config
	JoinTimeout       time.Duration // 0: the join goes on trying until its context ends
	Durable           bool          // recipes of tasks are recorded (see package lineage)
	Rebalance         time.Duration // see system.Config; 0 and less: no grain moves
	Supervisor        io.Writer     // nil: there is none
	Parts             standins.Parts

	Store     store.KV                 // nil: Open gives it, and the node closes it
	Open      func() (store.KV, error) // connects when the store is first used
	Transport func() (Transport, error)
	Allow     func(*x509.Certificate, member.Info) error // whether a certificate is good for a node with that record
}

// Transport is how the node's connections are made.
type Transport struct {
	link.Transport
	Print string // fingerprint of the node's key, "" without TLS
}

// Parts are what a node has in a cluster or without one, as far as they are made before the engines.
type Parts struct {
	Log       *zap.Logger
	Job       *core.Job
	Clock     refs.Clock
	Actors    *actor.ActorSystem
	Wheel     *wheel.Wheel
	Pool      *goroutines.Pool
	Decisions Decisions
	Drain     *Drain
	Objects   func() (*objects.Objects, error) // opens them: the registry and the directory are there
	Stop      func(cause error)                // ends the node's work
	Up        func(*mesh.Peer)                 // hears of a connection before work is sent there
	Take      func([]due.Item) error           // works at what is due; the error says why it cannot
	Ended     func() error                     // why the node ended; nil while it runs
}

// Decisions remembers where work goes, that of this node and of others whose grains it places.
type Decisions interface {
	placing.Decisions
	PlacedIn(id graindir.ID, in core.Bundle, at core.NodeKey)
	Moved(id graindir.ID, to raysys.NodeID, why string)
}

// Operator answers what operators ask.
type Operator interface {
	Serve(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error
	Asked(what string, by core.NodeKey) // a node asks a leader here for something that is written to the log
}

// Cluster is a node's part in its cluster: its membership, its connections, and the shards it leads. Join joins; Leave leaves,
// and a node that is fenced ends it.
type Cluster struct {
	Log       *zap.Logger
	Runner    *runner.Runner
	Mesh      *mesh.Mesh
	Refs      *refs.References
	Placer    *placing.Placer
	KV        store.KV    // from the join on, as are those below
	Store     *StoreTimes // KV, as its members and shards use it
	Network   link.Transport
	TLS       *tlsfiles.Watcher // nil where the node does not speak TLS
	Member    *member.Member
	Info      member.Info // the node's own record
	Registry  *registry.Registry
	Directory *registry.Directory
	Lineage   *lineage.Lineage // nil where that is not durable
	Shards    shards

	cfg      Config
	parts    Parts
	ownKV    bool // Join opened KV, and Leave closes it
	entry    entry
	times    mesh.Times
	actors   *remote.Actors
	objects  *objects.Objects
	prober   *waitcycles.Prober // from Engines on, as are those below
	tasks    *taskengine.Engine
	grains   *grainengine.Engine
	groups   *placing.Groups
	operator Operator
	killed   atomic.Pointer[error] // the cause that Kill was given; else nil
	departed atomic.Int64          // when a worker that had drained left last; 0: none has
	balance  grainBalance
	wake     chan struct{}   // capacity 1: wakes duties
	ctx      context.Context // the runner's

	mu   sync.Mutex // guards jobs
	jobs map[wire.JobKey]*core.Job
}

// New prepares the membership; it does no I/O. Engines gives it the rest of the node.
func New(cfg Config, parts Parts) *Cluster {
	c := &Cluster{
		Log: parts.Log.With(zap.String("node", string(cfg.Record.ID))), KV: cfg.Store, Runner: runner.New(parts.Clock), cfg: cfg, parts: parts, wake: make(chan struct{}, 1), times: mesh.TimesOf(cfg.TTL),
		jobs: map[wire.JobKey]*core.Job{},
	}
	c.Shards = shards{c: c, writers: shardlog.NewWriters(shardWriters), working: map[int]bool{}}
	c.entry = entry{cfg: &c.cfg, log: c.Log, pause: backoff.Doubling{First: 5 * time.Second, Longest: time.Minute}}
	parts.Drain.c = c
	c.ctx = c.Runner.Context()
	c.Mesh = c.newMesh()
	c.Refs = refs.New(c.Mesh, c.Runner, parts.Clock, parts.Job)
	c.actors = remote.New(remote.Config{Mesh: c.Mesh, System: parts.Actors, Log: c.Log})
	c.Placer = placing.New(placing.Config{
		Namespace: cfg.Namespace, Table: cfg.Table, Strategies: cfg.Strategies, Mesh: c.Mesh, Refs: c.Refs, Runner: c.Runner, Wheel: parts.Wheel, Pool: parts.Pool,
		Decisions: parts.Decisions, Suspended: c.Suspended, Admit: c.Admit,
	})
	return c
}

// Engines gives the engines of the node, which are made with methods of its Placer, and what is made with them.
func (c *Cluster) Engines(tasks *taskengine.Engine, grains *grainengine.Engine, groups *placing.Groups, operator Operator) {
	c.tasks, c.grains, c.groups, c.operator = tasks, grains, groups, operator
	peer := func(k core.NodeKey) *refs.Session { return refs.To(c.Mesh, k) }
	c.prober = waitcycles.New(waitcycles.Config{Self: c.Self, Peer: peer, Refs: c.Refs, Tasks: tasks, Grains: grains, Runner: c.Runner})
	c.parts.Job.Prober = c.prober
}

// job returns this node's Job for work of a job of another node.
func (c *Cluster) job(k wire.JobKey) *core.Job {
	own := c.parts.Job
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
			Unseen: own.Unseen, Panicked: own.Panicked, Closed: own.Closed, Leave: own.Leave, Objects: own.Objects,
			Prober: own.Prober, Gate: own.Gate, Tasks: own.Tasks, Span: own.Span,
		}
		c.jobs[k] = j
	}
	return j
}

// maxJobs bounds the jobs of other nodes that are remembered.
const maxJobs = 1024

// Self names this node and its incarnation.
func (c *Cluster) Self() core.NodeKey { return c.Mesh.Self() }

// Suspended is the error for calls to named grains while the lease is out, else nil.
func (c *Cluster) Suspended() error {
	switch c.Member.State() {
	case member.Active:
		return nil
	case member.Suspended:
		return fmt.Errorf("%w: node %s could not renew its lease", raysys.ErrSuspended, c.cfg.Record.ID)
	case member.Fenced:
		return fmt.Errorf("%w: node %s", raysys.ErrFenced, c.cfg.Record.ID)
	}
	return raysys.ErrClosed
}

// Admit returns nil at a moment at which no other node can have been given what this one holds: at once while the
// lease and the promises of the electors hold, and otherwise after a wait for the store, of a second at most, which
// waited reports.
func (c *Cluster) Admit() (waited bool, err error) {
	if c.Member.Promised() {
		return false, nil
	}
	if err := c.Suspended(); err != nil {
		return false, err
	}
	return true, c.Member.Admit(context.Background()) // it ends with the member, and says why
}

// Leader returns which node leads a shard, and false while none does.
func (c *Cluster) Leader(shard int) (core.NodeKey, bool) {
	l, ok := c.Member.View().Leader(shard)
	if !ok {
		return core.NodeKey{}, false
	}
	k := core.NodeKey{Node: l.Node, Incarnation: l.Incarnation}
	return k, c.Mesh.Alive(k)
}

// newMesh makes the node's connections; it does no I/O.
func (c *Cluster) newMesh() *mesh.Mesh {
	m := mesh.Config{
		Node: c.cfg.Record.ID, Namespace: c.cfg.Namespace, Table: c.cfg.Table, Runner: c.Runner, Log: c.Log, Times: c.times,
		Job: c.job, Allow: c.cfg.Allow,
		Frames: map[wire.Kind]func(*mesh.Peer, []byte) error{
			wire.KindTasks:       func(p *mesh.Peer, b []byte) error { return c.tasks.HandleTasks(refs.Of(p), b) },
			wire.KindTaskResult:  func(p *mesh.Peer, b []byte) error { return c.tasks.HandleResult(refs.Of(p), b) },
			wire.KindTaskResults: func(p *mesh.Peer, b []byte) error { return c.tasks.HandleResults(refs.Of(p), b) },
			wire.KindTaskCancel:  func(p *mesh.Peer, b []byte) error { return c.tasks.HandleCancel(refs.Of(p), b) },
			wire.KindTaskFinal:   func(p *mesh.Peer, b []byte) error { return c.tasks.HandleFinal(refs.Of(p), b) },
			wire.KindLoad:        func(p *mesh.Peer, b []byte) error { return c.Placer.OnLoad(refs.Of(p), b) },
			wire.KindActor:       func(p *mesh.Peer, b []byte) error { return c.actors.Receive(p, b) },
		},
		Questions: refs.Questions(),
		Sinks: map[wire.Kind]func(*mesh.Peer, []byte, int) link.Landing{
			wire.KindChunk: func(p *mesh.Peer, head []byte, size int) link.Landing { return c.objects.Land(p, head, size) },
		},

		Opened: func(p *mesh.Peer) { c.Refs.Open(p) },
		Up:     c.up, Down: c.down,
	}
	m.Questions[wire.KindRegistry] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.Registry.Serve(p.Key(), r, to) }
	m.Questions[wire.KindKeep] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.objects.Serve(p, r, to) }
	m.Questions[wire.KindBundles] = func(_ *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.groups.Serve(r, to) }
	m.Questions[wire.KindDue] = func(_ *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return serveDue(c, r, to) }
	m.Questions[wire.KindProbe] = func(_ *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.prober.Serve(r, to) }
	m.Questions[wire.KindActorBody] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.actors.ServeBody(p, r, to) }
	m.Questions[wire.KindAdmin] = func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return c.operator.Serve(p, r, to) }
	for _, k := range []wire.Kind{wire.KindCall, wire.KindCallResult, wire.KindCallCancel, wire.KindCallForget, wire.KindCallAsk, wire.KindCalls, wire.KindCallResults} {
		m.Frames[k] = func(p *mesh.Peer, b []byte) error { return c.grains.Receive(refs.Of(p), k, b) }
	}
	maps.Copy(m.Frames, refs.Frames())
	for _, k := range transfer.Kinds() {
		m.Frames[k] = func(p *mesh.Peer, b []byte) error { return c.objects.Handle(p, k, b) }
	}
	return mesh.New(m)
}

// up is called with a new connection.
func (c *Cluster) up(mp *mesh.Peer) {
	p := refs.Of(mp)
	c.Placer.Changed()
	c.parts.Up(mp)
	c.tasks.PeerUp(p, placing.Offer(c.Mesh.Info(p.Key())))
	c.grains.PeerUp(p)
	c.Registry.Retry()
	c.Poke() // a shard may have waited for a session with its preferred leader
}

// down is called when a connection is over.
func (c *Cluster) down(mp *mesh.Peer, cause error) {
	if killed := c.killed.Load(); killed != nil {
		c.parts.Stop(*killed) // before work runs here again because its node seems gone
	}
	p := refs.Of(mp)
	c.Placer.Changed()
	c.tasks.PeerDown(p, cause)
	c.grains.PeerDown(p, cause)
	c.objects.PeerDown(p.Key(), cause)
	c.actors.Down(mp)
}
