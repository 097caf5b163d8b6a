package registry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// Members is what the registry needs to know of the cluster. In one process it is a cluster of one.
type Members interface {
	// Self is this node.
	Self() core.NodeKey
	// Leader returns which node leads a shard, and false while none does.
	Leader(shard int) (core.NodeKey, bool)
	// Alive reports whether an incarnation is in the cluster.
	Alive(core.NodeKey) bool
	// Suspended is the error for calls to named grains while this node's lease is out, else nil.
	Suspended() error
	// Promised reports whether this node may answer from memory: until then no other leads what it leads.
	Promised() bool
	// Nodes lists the nodes for placement as they are at a moment. The list is the caller's.
	Nodes() ([]placement.Node, Moment)
	// Since calls reported with each incarnation that has reported its load since a moment, and returns that of now.
	Since(m Moment, reported func(core.NodeKey)) Moment
	// Reported corrects what is known of a node by its last report.
	Reported(*placement.Node)
	// Connect finds or makes a connection to another node. done is called once, on any goroutine.
	Connect(to core.NodeKey, done func(*mesh.Questions, error))
}

// Moment says which changes of the nodes have been seen. The zero Moment has seen none.
type Moment struct {
	Members uint64 // grows when a node comes, goes or changes but for its load
	Reports uint64 // grows with each report of a load
}

// Config says what New makes a Registry of.
type Config struct {
	Members    Members
	Actors     *actor.ActorSystem
	Runner     *runner.Runner  // has the clock; once it has ended a Directory resends nothing
	Layout     shardlog.Layout // maps keys to shards
	Namespace  string          // of the grains that this node asks for
	Strategies map[raysys.Strategy]placement.Strategy
	// HandOver asks a worker to claim a task that has a name, or to which a State refers; nil where there is none.
	HandOver func(worker core.NodeKey, task TaskKey)
	// AskBundles has a node do something with its bundles of placement groups. done is called once, on any goroutine.
	AskBundles func(at core.NodeKey, a groupengine.Ask, done func(error))
	// Fire gives a worker records that are due. refused is called on any goroutine with those that the worker has not taken, and why. Nil where
	// nothing works at them.
	Fire func(worker core.NodeKey, list []due.Item, refused func([]due.Item, error))
	// Wall is the time of day; nil: that of package time.
	Wall func() time.Time
	// Asked is called with what an operator asks for of a schedule, and must not block; it may be nil.
	Asked func(what string, by core.NodeKey)
	// Placed is called with each decision where a grain goes, and must not block; it may be nil.
	Placed func(graindir.ID, placement.Decision)
	// PlacedIn is the same for a grain in a bundle, whose node the asker has said.
	PlacedIn func(graindir.ID, core.Bundle, core.NodeKey)
	// Removed is called with a placement group that a node other than its owner has removed; it may be nil.
	Removed func(group string, by core.NodeKey)
	// Expecting reports whether a worker of the cluster is not among Nodes yet, so that what no node has may come; nil: there is none.
	Expecting func() bool
	// Alone says that this process owns the store and that there is no other node: its grains have no tokens.
	Alone bool
}

// Registry asks the leaders of shards, and leads the shards that it is given.
type Registry struct {
	cfg       Config
	ledGroups ledGroups
	dues      dueStore

	mu     sync.Mutex // guards the rest
	led    map[int]*ledShard
	parked map[int][]request // by shard: requests that wait for a leader
	closed error
}

// ledShard is a shard that this node leads.
type ledShard struct {
	shard *shardlog.Shard
	pid   *actor.PID
}

// New makes a Registry that leads no shard. It starts nothing.
func New(cfg Config) *Registry {
	r := &Registry{cfg: cfg, led: map[int]*ledShard{}, parked: map[int][]request{}}
	r.dues.init(r)
	return r
}

// Layout maps keys to shards.
func (r *Registry) Layout() *shardlog.Layout { return &r.cfg.Layout }

// askLeader sends q to the leader of its shard: now, or as soon as there is one.
func (r *Registry) askLeader(q request) {
	w := q.who()
	if err := r.cfg.Members.Suspended(); err != nil && q.code().needsLease() {
		q.fail(err)
		return
	}
	r.mu.Lock()
	if err := r.closed; err != nil {
		r.mu.Unlock()
		q.fail(err)
		return
	}
	if r.serveHere(q) {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	leader, ok := r.cfg.Members.Leader(w.shard)
	switch {
	case !ok || leader == r.cfg.Members.Self(): // this node is taking over, or was deposed this moment
		r.park(q)
	case w.inbound: // another node leads by now. If this node passed q on, the leader would take this node for the asker.
		q.fail(errNotLeader)
	default:
		r.cfg.Members.Connect(leader, func(to *mesh.Questions, err error) {
			if err != nil {
				r.park(q)
				return
			}
			q.send(to)
		})
	}
}

// serveHere hands q to this node's leader of the shard, if there is one. r.mu is held: StepDown takes the lock before
// it stops the leader, so that the leader gets every request that was handed to it.
func (r *Registry) serveHere(q request) bool {
	l := r.led[q.who().shard]
	if l != nil {
		r.cfg.Actors.Root.Send(l.pid, q)
	}
	return l != nil
}

// received handles a request of another node: this node must lead the shard.
func (r *Registry) received(q request) {
	w := q.who()
	right := r.cfg.Layout.ShardOf(q.shardKey()) == w.shard || q.ofShard()
	r.mu.Lock()
	if right && r.closed == nil && r.serveHere(q) {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	if to, ok := r.cfg.Members.Leader(w.shard); ok && right && to == r.cfg.Members.Self() {
		r.park(q) // this node is taking over
		return
	}
	q.fail(errNotLeader)
}

// patience is how long a request waits for a leader of its shard: longer than a silent leader takes to be replaced.
const patience = 60 * time.Second

// park keeps a request until leaders or connections change, and at most for a moment: the asked node may have answered
// before it knew of a change that this node knows already.
func (r *Registry) park(q request) {
	w, now := q.who(), r.cfg.Runner.Now()
	if w.since == 0 {
		w.since = now
	}
	r.mu.Lock()
	err := r.closed
	if err == nil && now-w.since > int64(patience) {
		err = fmt.Errorf("%w: no node has led shard %d for %v: raysys status shows the leaders", raysys.ErrUnreachable, w.shard, patience)
	}
	first := len(r.parked[w.shard]) == 0
	if err == nil {
		r.parked[w.shard] = append(r.parked[w.shard], q)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		q.fail(err)
	case first:
		r.cfg.Runner.Later(func() { r.retry(w.shard) })
	}
}

// take takes the requests out of parked that wait for a leader of the shard.
func (r *Registry) take(shard int) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.parked[shard]
	delete(r.parked, shard)
	return list
}

// takeAll takes all requests out of parked.
func (r *Registry) takeAll() (all []request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.parked {
		all = append(all, list...)
	}
	clear(r.parked)
	return all
}

func (r *Registry) retry(shard int) {
	for _, q := range r.take(shard) {
		r.askLeader(q)
	}
}

// Retry sends all requests that wait for a leader. It is called when leaders or connections may have changed.
func (r *Registry) Retry() {
	for _, q := range r.takeAll() {
		r.askLeader(q)
	}
}

// Waiting is how many requests wait for a leader.
func (r *Registry) Waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.parked {
		n += len(list)
	}
	return n
}

// Fail fails the requests that wait for a shard which cannot be led.
func (r *Registry) Fail(shard int, err error) {
	for _, q := range r.take(shard) {
		q.fail(err)
	}
}

// Close fails the requests that wait for a leader, and all later ones.
func (r *Registry) Close(err error) {
	r.mu.Lock()
	r.closed = err
	r.mu.Unlock()
	for _, q := range r.takeAll() {
		q.fail(err)
	}
}

// Lead begins to serve a shard that this node leads.
func (r *Registry) Lead(n int, s *shardlog.Shard) {
	props := actor.PropsFromProducer(func() actor.Actor { return newLeader(r, s) })
	pid := r.cfg.Actors.Root.SpawnPrefix(props, "shard")
	r.mu.Lock()
	r.led[n] = &ledShard{s, pid}
	// Registry.Reap is called for nodes that die from now on. The leader before this one may have died before it reaped
	// an earlier one.
	r.cfg.Actors.Root.Send(pid, &reap{})
	r.mu.Unlock()
	r.retry(n)
}

// StepDown ends serving a shard that was released, or of which another node deposed this one. It returns once the
// requests that the leader had are answered or wait for the next leader.
func (r *Registry) StepDown(n int, s *shardlog.Shard) {
	r.mu.Lock()
	l := r.led[n]
	if l == nil || l.shard != s {
		r.mu.Unlock()
		return
	}
	delete(r.led, n)
	r.mu.Unlock()
	_ = r.cfg.Actors.Root.PoisonFuture(l.pid).Wait()
	r.retry(n)
}

// Led lists the shards that this node serves.
func (r *Registry) Led() map[int]*shardlog.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[int]*shardlog.Shard, len(r.led))
	for n, l := range r.led {
		m[n] = l.shard
	}
	return m
}

// Reap has the leaders of this node remove from their shards what belongs to incarnations that are dead.
func (r *Registry) Reap() {
	r.mu.Lock()
	pids := make([]*actor.PID, 0, len(r.led))
	for _, l := range r.led {
		pids = append(pids, l.pid)
	}
	r.mu.Unlock()
	for _, pid := range pids {
		r.cfg.Actors.Root.Send(pid, &reap{})
	}
}

// Serve handles a question of wire.KindRegistry: the peer takes this node for the leader of a shard. It does not block.
// An error means that the frame breaks the protocol.
func (r *Registry) Serve(from core.NodeKey, in *wire.Reader, to mesh.Reply) error {
	shard := in.Uint32()
	q, err := readRequest(in)
	if err != nil {
		return err
	}
	*q.who() = asker{reg: r, shard: int(shard), from: from, inbound: true}
	q.replyTo(to)
	r.received(q)
	return nil
}

// Commit stores c if token is current and c.After is the version of the grain's counter. See graindir.States for its
// errors.
func (r *Registry) Commit(id graindir.ID, token graindir.Token, c graindir.Commit, done func(graindir.ETag, error)) {
	ask(r, &commit{grain{r.cfg.Namespace, id, token}, c}, done)
}

// Confirm returns where a grain is now, the zero place when it is nowhere.
func (r *Registry) Confirm(id graindir.ID, token graindir.Token, done func(graindir.Placed, error)) {
	ask(r, &confirm{grain: grain{r.cfg.Namespace, id, token}}, done)
}

// Find returns the record of an object, of a name, or of a State.
func (r *Registry) Find(key string, done func(Entry, error)) {
	ask(r, &find{key: key}, done)
}

// FindLast is Find behind all changes that the leader was asked for before.
func (r *Registry) FindLast(key string, done func(Entry, error)) {
	ask(r, &find{key: key, last: true}, done)
}

// Await returns the record once it has another version than seen. A record that is gone has the zero version.
func (r *Registry) Await(key string, seen shardlog.Version, done func(Entry, error)) {
	ask(r, &find{key: key, seen: seen, wait: true}, done)
}

// Next is Await for whoever has the record as it was before.
func (r *Registry) Next(key string, before Entry, done func(Entry, error)) {
	r.Await(key, before.Version, done)
}

// Group asks the leader of a group's shard. done is called once, on any goroutine, and must not block.
func (r *Registry) Group(q groupengine.Question, done func(groupengine.Entry, error)) {
	ask(r, &group{q}, done)
}

// Groups lists the placement groups of the shards that this node leads, in no order.
func (r *Registry) Groups() []LedGroup {
	p := &r.ledGroups
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.by))
}

// Load reads the named States of a grain, in that order. It fails with raysys.ErrMoved when token is not current.
func (r *Registry) Load(id graindir.ID, names []string, token graindir.Token, done func([]graindir.Record, error)) {
	loadPages(r, load{grain{r.cfg.Namespace, id, token}, names}, nil, done)
}

// Locate returns where a grain is, and places it if it has no placement. avoid, when not zero, is a placement that the
// caller could not use.
func (r *Registry) Locate(id graindir.ID, want graindir.Wanted, avoid graindir.Place, done func(graindir.Placed, error)) {
	ask(r, &locate{
		grain: grain{ns: r.cfg.Namespace, id: id}, strategy: want.Strategy, labels: want.Labels, needs: raysys.Resources(want.Needs), avoid: avoid,
		bundle: want.Bundle, at: want.At, conditions: Conditions(want.Nodes), always: want.Always,
	}, done)
}

// Release removes the placement of a grain if token is current, or puts it on the node to, and returns the new place:
// none where to is zero, or takes no grains, or this node has no lease. A token that is not current is no error.
func (r *Registry) Release(id graindir.ID, token graindir.Token, to core.NodeKey, done func(graindir.Place, error)) {
	if r.cfg.Members.Suspended() != nil {
		to = core.NodeKey{}
	}
	ask(r, &release{grain{r.cfg.Namespace, id, token}, to, false}, done)
}

// End is Release of a grain that is always on, and is woken no more: with the zero token of one that has no place.
func End(r *Registry, id graindir.ID, token graindir.Token, done func(error)) {
	op := &release{grain: grain{r.cfg.Namespace, id, token}, ends: true}
	ask(r, op, func(_ graindir.Place, err error) { done(err) })
}

// Restore reads the named States of a durable grain, in that order, its counter and its replies. It fails with
// raysys.ErrMoved when token is not current.
func (r *Registry) Restore(id graindir.ID, names []string, token graindir.Token, done func(graindir.Restored, error)) {
	restorePages(r, restore{load: load{grain{r.cfg.Namespace, id, token}, names}}, names, graindir.Restored{}, done)
}

// Save stores data under name if token is current and etag is that of the stored version; nil data removes it. See
// graindir.States for its errors.
func (r *Registry) Save(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte, done func(graindir.ETag, error)) {
	ask(r, &save{grain{r.cfg.Namespace, id, token}, name, etag, data}, done)
}
