package system

import (
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
)

// members is what the registry needs to know of the cluster. In one process it is a cluster of one.
type members interface {
	// leader returns who leads a shard, and false while nobody does.
	leader(shard int) (core.NodeKey, bool)
	// alive reports whether an incarnation is in the cluster.
	alive(core.NodeKey) bool
	// suspended is the error for calls to named grains while this node's lease is out, else nil.
	suspended() error
	// alone reports that this process owns the store and there is no other node.
	alone() bool
	// nodes lists the nodes for placement, with a number that grows when something about them changes. The list is the
	// caller's.
	nodes() ([]placement.Node, uint64)
	strategies() map[raysys.Strategy]placement.Strategy
	// send passes a request on to another node.
	send(to core.NodeKey, shard int, q *request)
	// later calls f after a short pause; now is the runtime's clock.
	later(f func())
	now() int64
	self() core.NodeKey
}

// registry finds the leader of a grain's shard and asks it. It holds the shards that this node leads.
type registry struct {
	nodes  members
	actors *actor.ActorSystem
	conf   store.Layout // maps keys to shards

	mu     sync.Mutex // guards the rest
	led    map[int]*ledShard
	parked map[int][]*request // for shards that have no leader now
	closed error
}

// ledShard is a shard that this node leads.
type ledShard struct {
	shard *store.Shard
	pid   *actor.PID
}

func newRegistry(nodes members, actors *actor.ActorSystem, conf store.Layout) *registry {
	return &registry{nodes: nodes, actors: actors, conf: conf, led: map[int]*ledShard{}, parked: map[int][]*request{}}
}

// ask sends q to the leader of its shard, now or as soon as there is one.
func (r *registry) ask(q *request) {
	n := r.conf.ShardOf(q.slotKey())
	if err := r.nodes.suspended(); err != nil && q.op != opRelease {
		q.answer(answer{err: err})
		return
	}
	r.mu.Lock()
	if r.closed != nil {
		err := r.closed
		r.mu.Unlock()
		q.answer(answer{err: err})
		return
	}
	if l := r.led[n]; l != nil {
		again := *q
		again.answer = func(a answer) { r.answered(n, q, a) }
		r.actors.Root.Send(l.pid, &again) // under mu: unlead stops the actor after what came before it
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	leader, ok := r.nodes.leader(n)
	if !ok || leader == r.nodes.self() { // self: it is taking over, or was deposed this moment
		r.park(n, q)
		return
	}
	if q.inbound { // it waited for this node to lead; from here it would count as this node's
		q.answer(answer{retry: true})
		return
	}
	r.nodes.send(leader, n, q)
}

// patience is how long a request waits for somebody to lead its shard: longer than a silent leader takes to be
// replaced.
const patience = 60 * time.Second

// answered is called with what a leader said; a node that does not lead any more makes the request wait for the next.
func (r *registry) answered(shard int, q *request, a answer) {
	if !a.retry {
		q.answer(a)
		return
	}
	r.park(shard, q)
}

// park keeps a request until the leader of its shard changes, or for a moment: the asked node may have answered before
// it saw the change that this one knows already.
func (r *registry) park(shard int, q *request) {
	now := r.nodes.now()
	if q.parked == 0 {
		q.parked = now
	}
	r.mu.Lock()
	err := r.closed
	if err == nil && now-q.parked > int64(patience) {
		err = fmt.Errorf("%w: nobody has led shard %d for %v: raysys status shows the leaders", raysys.ErrUnreachable, shard, patience)
	}
	first := len(r.parked[shard]) == 0
	if err == nil {
		r.parked[shard] = append(r.parked[shard], q)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		q.answer(answer{err: err})
	case first:
		r.nodes.later(func() { r.retry(shard) })
	}
}

// retry sends what waits for shard; called when its leader may have changed.
func (r *registry) retry(shard int) {
	r.mu.Lock()
	list := r.parked[shard]
	delete(r.parked, shard)
	r.mu.Unlock()
	for _, q := range list {
		r.ask(q)
	}
}

// retryAll is retry for every shard.
func (r *registry) retryAll() {
	r.mu.Lock()
	list := r.parked
	r.parked = map[int][]*request{}
	r.mu.Unlock()
	for _, qs := range list {
		for _, q := range qs {
			r.ask(q)
		}
	}
}

// received handles a request of another node: this node must lead the shard.
func (r *registry) received(shard int, q *request) {
	right := r.conf.ShardOf(q.slotKey()) == shard
	r.mu.Lock()
	if l := r.led[shard]; l != nil && right && r.closed == nil {
		r.actors.Root.Send(l.pid, q) // under mu, as in ask
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	if to, ok := r.nodes.leader(shard); ok && right && to == r.nodes.self() {
		r.park(shard, q) // it is taking over
		return
	}
	q.answer(answer{retry: true})
}

// lead starts to serve a shard.
func (r *registry) lead(n int, s *store.Shard) {
	props := actor.PropsFromProducer(func() actor.Actor { return newShardActor(r, s) })
	pid := r.actors.Root.SpawnPrefix(props, "shard")
	r.mu.Lock()
	r.led[n] = &ledShard{s, pid}
	// Who dies from now on is told by died. Those before were, if at all, to a leader who may have died with them.
	r.actors.Root.Send(pid, &reap{})
	r.mu.Unlock()
	r.retry(n)
}

// unlead ends that: the shard was released, or another node deposed this one.
func (r *registry) unlead(n int, s *store.Shard) {
	r.mu.Lock()
	l := r.led[n]
	if l == nil || l.shard != s {
		r.mu.Unlock()
		return
	}
	delete(r.led, n)
	r.mu.Unlock()
	// What is in its mailbox is answered by the shard's error.
	_ = r.actors.Root.PoisonFuture(l.pid).Wait()
	r.retry(n)
}

// leads lists the shards that this node serves.
func (r *registry) leads() map[int]*store.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[int]*store.Shard, len(r.led))
	for n, l := range r.led {
		m[n] = l.shard
	}
	return m
}

// died tells the shards that an incarnation is not alive any more.
func (r *registry) died() {
	r.mu.Lock()
	pids := make([]*actor.PID, 0, len(r.led))
	for _, l := range r.led {
		pids = append(pids, l.pid)
	}
	r.mu.Unlock()
	for _, pid := range pids {
		r.actors.Root.Send(pid, &reap{})
	}
}

// close fails what waits.
func (r *registry) close(err error) {
	r.mu.Lock()
	r.closed = err
	parked := r.parked
	r.parked = map[int][]*request{}
	r.mu.Unlock()
	for _, list := range parked {
		for _, q := range list {
			q.answer(answer{err: err})
		}
	}
}

// fail answers what waits for a shard that cannot be led.
func (r *registry) fail(shard int, err error) {
	r.mu.Lock()
	list := r.parked[shard]
	delete(r.parked, shard)
	r.mu.Unlock()
	for _, q := range list {
		q.answer(answer{err: err})
	}
}
