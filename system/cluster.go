package system

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/tasks"
)

// cluster is a node's life among others: its membership, its links and the shards it leads. It is made by Start and
// ended by Close, or by being fenced.
type cluster struct {
	node     *Node
	cfg      *Cluster
	log      *zap.Logger
	kv       store.KV
	ownKV    bool // it was opened here
	link     *link.Link
	network  link.Transport
	member   *member.Member
	info     member.Info // what the node tells of itself
	attempts attempts    // to reach the store
	reg      *registry
	times    times
	entries  []*core.Entry // this node's functions, by the number that others use
	exports  exports
	imports  imports
	ledger   ledger
	objects  *objects
	watches  watches
	key      atomic.Pointer[nodeKey]
	homeless atomic.Int64  // stateless calls that wait for a worker
	draws    atomic.Uint64 // random choices made here
	byLink   sync.Map      // *link.Peer -> *peer
	joined   chan struct{} // closed when key is known
	killed   atomic.Bool   // see Node.Kill
	wake     chan struct{} // capacity 1: duties shall look again
	tell     chan struct{} // capacity 1: the load changed

	unregistered sync.Map // reflect.Type -> true, of error types that the log has a line on

	ctx      context.Context // ends everything the cluster runs
	cancel   context.CancelFunc
	running  sync.WaitGroup // of run
	moves    sync.WaitGroup // shards being taken or given up
	duty     sync.Mutex     // held while duties decides about shards
	retiring atomic.Bool    // it takes no shard any more
	trying   atomic.Bool    // see ways
	departed atomic.Int64   // when a worker that had drained left last; 0 none

	mu       sync.Mutex // guards the rest
	ended    error      // set when the cluster ends
	peers    map[raysys.NodeID]*peer
	admitted map[nodeKey]member.Info     // what connected nodes tell of themselves
	heard    map[raysys.NodeID]time.Time // when the last frame came, of nodes whose connection broke
	waiting  map[nodeKey][]func(*peer, error)
	jobs     map[jobKey]*core.Job
	loads    map[nodeKey]tasks.Load
	failed   map[nodeKey]error // why nodes without a connection could not be reached when they were dialled last
	gen      uint64            // grows with every change that placement may care for
	working  map[int]bool      // shards that are being taken or given up
}

type jobKey struct {
	id        raysys.JobID
	namespace string
}

// run starts a goroutine that ends with the cluster.
func (c *cluster) run(f func()) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	c.running.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.running.Done()
		f()
	}()
}

// job returns what work of another node's job belongs to here.
func (c *cluster) job(id raysys.JobID, namespace string) *core.Job {
	own := c.node.job
	if id == own.ID && namespace == own.Namespace {
		return own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := jobKey{id, namespace}
	j := c.jobs[k]
	if j == nil {
		// Jobs come and go with drivers; what is running keeps its own.
		if len(c.jobs) >= maxJobs {
			clear(c.jobs)
		}
		j = &core.Job{
			ID: id, Namespace: namespace, Node: own.Node, Runtime: own.Runtime, Table: own.Table, Top: own.Top, Inspect: own.Inspect,
			Unseen: own.Unseen, Panicked: own.Panicked, Closed: own.Closed, Objects: own.Objects,
			Prober: own.Prober,
		}
		c.jobs[k] = j
	}
	return j
}

// maxJobs bounds the jobs of other nodes that are remembered.
const maxJobs = 1024

// self implements members.
func (c *cluster) self() nodeKey {
	if k := c.key.Load(); k != nil {
		return *k
	}
	return nodeKey{Node: c.node.cfg.Name}
}

// alone implements members.
func (c *cluster) alone() bool { return false }

// suspended implements members.
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

// alive implements members. A node that may have joined just now counts: others pass on what they have of it before the
// store's watch has told this one.
func (c *cluster) alive(k nodeKey) bool {
	v := c.member.View()
	n, ok := v.Node(k.Node)
	return ok && n.Incarnation == k.Incarnation || v.Coming(k.Node, k.Incarnation)
}

func (c *cluster) aliveLocked(k nodeKey) bool { return c.alive(k) } // the view needs no lock of ours

// address returns where k can be dialled. It fails with raysys.ErrNodeDead when it is no member.
func (c *cluster) address(ctx context.Context, k nodeKey) (string, error) {
	if !c.alive(k) {
		return "", fmt.Errorf("%w: %s", raysys.ErrNodeDead, k)
	}
	n, err := c.member.Confirm(ctx, k.Node, k.Incarnation)
	return n.Info.Address, err
}

// leader implements members.
func (c *cluster) leader(shard int) (nodeKey, bool) {
	l, ok := c.member.View().Leader(shard)
	if !ok {
		return nodeKey{}, false
	}
	k := nodeKey{Node: l.Node, Incarnation: l.Incarnation}
	return k, c.alive(k)
}

// later implements members.
func (c *cluster) later(f func()) { c.node.later(f) }

// now implements members.
func (c *cluster) now() int64 { return c.node.Now() }

// later calls f, which must not block, after a pause that is short for people and long for machines.
func (n *Node) later(f func()) {
	n.SetAlarm(&core.Alarm{At: n.Now() + int64(20*time.Millisecond), Ring: f})
}

// send implements members.
func (c *cluster) send(to nodeKey, shard int, q *request) {
	c.connect(to, func(p *peer, err error) {
		if err != nil {
			c.reg.park(shard, q)
			return
		}
		p.ask(shard, q)
	})
}

// strategies implements members.
func (c *cluster) strategies() map[raysys.Strategy]placement.Strategy { return c.cfg.Strategies }

// nodes implements members.
func (c *cluster) nodes() ([]placement.Node, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	view := c.member.View()
	list := make([]placement.Node, 0, len(view.Nodes()))
	for _, n := range view.Nodes() {
		k := nodeKey{Node: n.ID, Incarnation: n.Incarnation}
		pn := placement.Node{
			ID: n.ID, Incarnation: n.Incarnation, Total: n.Info.Resources, Free: n.Info.Resources, Labels: n.Info.Labels,
			Worker: roleOf(n.Info).hosts(), Suspect: n.Suspect, Joining: n.Joining, Draining: n.Info.Draining,
		}
		if l, ok := c.loads[k]; ok {
			pn.Queued, pn.MeanTask, pn.Running = l.Queued+l.Inbound, l.Mean, int(l.Busy)
			pn.Free.CPU = max(l.Free, 0)
		}
		if k == c.self() {
			table := c.node.cfg.Table
			pn.Namespace = c.node.cfg.Namespace
			pn.Runs = func(f string) bool { return has(table, f) }
		} else if p := c.peers[n.ID]; p != nil && p.key == k {
			pn.Namespace = p.namespace
			pn.Runs = func(f string) bool { return p.kinds[f] }
		} else {
			continue // whoever is not connected could not be asked either
		}
		list = append(list, pn)
	}
	return list, c.gen
}

// handlers are what the link calls with frames.
func (c *cluster) handlers() map[link.Kind]link.Handler {
	frames := map[wire.Kind]func(*peer, []byte) error{
		wire.KindOpen:        func(p *peer, b []byte) error { return p.turns.Opened(b) },
		wire.KindShut:        func(p *peer, b []byte) error { return p.turns.Shut(b) },
		wire.KindCancelTurn:  func(p *peer, b []byte) error { return p.turns.Cancelled(b) },
		wire.KindTasks:       func(p *peer, b []byte) error { return c.node.tasks.HandleTasks(p, b) },
		wire.KindTaskResult:  func(p *peer, b []byte) error { return c.node.tasks.HandleResult(p, b) },
		wire.KindTaskResults: func(p *peer, b []byte) error { return c.node.tasks.HandleResults(p, b) },
		wire.KindTaskCancel:  func(p *peer, b []byte) error { return c.node.tasks.HandleCancel(p, b) },
		wire.KindAnswer:      func(p *peer, b []byte) error { return p.calls.Answered(b) },
		wire.KindDrop:        (*peer).onDrop,
		wire.KindHeld:        (*peer).onHeld,
		wire.KindLoad:        (*peer).onLoad,
		wire.KindActor:       (*peer).onActor,
	}
	for _, k := range []wire.Kind{wire.KindCall, wire.KindCallResult, wire.KindCallCancel, wire.KindCalls, wire.KindCallResults} {
		frames[k] = func(p *peer, b []byte) error { return c.node.grains.Receive(p, k, b) }
	}
	for _, k := range transfer.Kinds() {
		frames[k] = func(p *peer, b []byte) error { return c.objects.engine.Handle(p, k, b) }
	}
	calls := map[wire.Kind]func(*peer, *wire.Reader, mesh.Reply) error{
		wire.KindAwait:    (*peer).onAwait,
		wire.KindBorrow:   (*peer).onBorrow,
		wire.KindKeep:     (*peer).onKeep,
		wire.KindRegistry: (*peer).onRegistry,
		wire.KindBallot:   (*peer).onBallot,
		wire.KindProbe:    (*peer).onProbe,
		wire.KindAdmin:    (*peer).onAdmin,
	}
	out := make(map[link.Kind]link.Handler, len(frames)+len(calls))
	for k, f := range frames {
		out[link.Kind(k)] = c.handler(k, func(p *peer, _ link.Class, b []byte) error { return f(p, b) })
	}
	for k, f := range calls {
		out[link.Kind(k)] = c.handler(k, func(p *peer, class link.Class, b []byte) error {
			return p.calls.Serve(wire.Class(class), b, func(r *wire.Reader, to mesh.Reply) error { return f(p, r, to) })
		})
	}
	return out
}

// handler closes the connection that brought a frame which cannot be.
func (c *cluster) handler(k wire.Kind, f func(*peer, link.Class, []byte) error) link.Handler {
	return func(l *link.Peer, class link.Class, payload []byte) {
		v, ok := c.byLink.Load(l)
		if !ok {
			return
		}
		p := v.(*peer)
		if err := f(p, class, payload); err != nil {
			c.log.Warn("closing a connection that sent what cannot be", zap.Stringer("peer", p.key), zap.Uint8("kind", uint8(k)), zap.Error(err))
			l.Close(fmt.Errorf("frame of kind %d: %w", k, err))
		}
	}
}

// call connects to a node and has it asked with start; the error is why it cannot be connected to.
func (c *cluster) call(k nodeKey, start func(*mesh.Calls), failed func(error)) {
	c.connect(k, func(p *peer, err error) {
		if err != nil {
			failed(err)
			return
		}
		start(&p.calls)
	})
}
