package system

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/placing"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/remote"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// shardWriters is how many shards of a node write to the store at a time: its connections for data (C13), but for one that
// reads have.
const shardWriters = 8

// newCluster prepares the membership; it does no I/O.
func newCluster(n *Node) *cluster {
	c := &cluster{
		node: n, cfg: n.cfg.Cluster, log: n.log.With(zap.String("node", string(n.cfg.Name))), kv: n.cfg.Cluster.Store, writers: shardlog.NewWriters(shardWriters),
		runner: runner.New((*nodeRuntime)(n)), wake: make(chan struct{}, 1), times: mesh.TimesOf(n.cfg.Cluster.TTL),
		jobs: map[wire.JobKey]*core.Job{}, working: map[int]bool{},
	}
	c.ctx = c.runner.Context()
	c.mesh = c.newMesh()
	c.refs = refs.New(c.mesh, c.runner, (*nodeRuntime)(n), n.job)
	c.actors = remote.New(remote.Config{Mesh: c.mesh, System: n.actors, Log: c.log})
	c.placer = placing.New(placing.Config{
		Namespace: n.cfg.Namespace, Table: n.cfg.Table, Strategies: c.cfg.Strategies, Mesh: c.mesh, Refs: c.refs, Runner: c.runner, Wheel: n.wheel, Pool: n.pool,
		Decisions: &n.decisions, Suspended: c.suspended,
	})
	return c
}

// join makes the node a member of its cluster. While the store cannot be reached it tries again and logs that, until
// ctx ends or Cluster.JoinTimeout is over.
func (c *cluster) join(ctx context.Context) (err error) {
	n, cfg := c.node, c.cfg
	ctx, cancel := c.joinLimit(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			c.abandon()
			err = fmt.Errorf("join cluster %q: %w", cfg.Name, err)
		}
	}()
	if c.kv == nil {
		if c.kv, err = cfg.open(); err != nil {
			return err
		}
		c.ownKV = true
	}
	conf, err := c.readConfig(ctx)
	if err != nil {
		return err
	}
	transport, err := cfg.transport()
	if err != nil {
		return err
	}
	if err := c.sameWire(ctx, transport.print); err != nil {
		return err
	}
	c.reg = registry.New(registry.Config{
		Members: clusterMembers{c}, Actors: n.actors, Runner: c.runner, Layout: conf, Namespace: n.cfg.Namespace, Strategies: cfg.Strategies,
		AskBundles: n.groups.Ask, Expecting: c.placer.Expecting, Removed: n.operator.Removed, Placed: n.decisions.Placed, PlacedIn: n.decisions.PlacedIn,
		HandOver: func(worker core.NodeKey, k registry.TaskKey) { c.refs.TakeAt(worker, k.Run, k.ID) },
	})
	c.placer.Registry = c.reg
	c.directory = registry.NewDirectory(c.reg)
	if c.objects, err = n.openObjects(); err != nil {
		return err
	}
	c.refs.SetObjects(c.objects)
	if n.cfg.Lineage == LineageDurable {
		l := lineage.New(lineage.Config{
			Tasks: registry.NewTasks(c.reg), States: c.reg, Refs: c.refs, Engine: n.tasks, Runner: c.runner, Job: n.job, JobOf: c.job, Self: c.self, Alive: c.mesh.Alive,
			Driver: cfg.Role == Driver,
			Log:    n.log.Sugar().Warnw,
		})
		c.refs.SetLineage(l)
		n.job.Gate, n.job.Tasks, c.lineage = l, l, l
	}
	c.network = transport
	if cfg.parts.Unproven {
		conf.Secret = nil
	}
	if err = c.mesh.Listen(link.Config{Self: c.identity, Transport: transport, Listen: cfg.Listen, Secret: conf.Secret, Chaos: cfg.parts.Chaos}); err != nil {
		return err
	}
	addr := cfg.Advertise
	if addr == "" {
		addr = c.mesh.Addr()
	}
	c.info = member.Info{
		ID: n.cfg.Name, Address: addr, Role: cfg.Role.member(), Serves: cfg.Role == Both, Resources: n.cfg.Resources, Devices: n.cfg.Devices, Labels: cfg.Labels,
		Version: Version(), Functions: c.digest(), KeyPrint: transport.print, Started: time.Now(),
		Launch: cfg.Launch, Observer: cfg.Observer, Proves: len(conf.Secret) > 0,
	}
	c.member, err = member.Join(ctx, member.Config{
		KV: c.kv, Cluster: cfg.Name, ClusterID: conf.ID, Shards: conf.Shards, TTL: cfg.TTL, Clock: cfg.parts.Clock, Prober: c.mesh, Ballots: c.mesh,
		Self: c.info, OnState: c.stateChanged, OnAttempt: func(a member.Attempt) { c.attempted(a.Err) }, OnEvent: c.event,
	})
	if err != nil {
		return err
	}
	c.placer.Member = c.member
	n.job.Run = c.member.Incarnation()
	c.mesh.Joined(c.member)
	n.actors.ProcessRegistry.Address = remote.Address(c.self()) // no actor has been spawned yet
	n.actors.ProcessRegistry.RegisterAddressResolver(c.actors.Resolve)
	c.runner.Run(c.objects.Recover)
	c.runner.Run(c.placer.TellLoad)
	c.runner.Run(c.duties)
	if cfg.Role == Driver && !cfg.Observer {
		c.runner.Run(c.sayWaiting)
	}
	if c.certs = c.newCertificates(transport); c.certs != nil && !cfg.Observer {
		c.runner.Run(func() { c.certs.run(c.runner.Pause) })
	}
	if cfg.Role.hosts() {
		c.runner.Run(c.seekSessions)
	}
	if in, ok := c.kv.(catalog); ok && !cfg.Observer {
		c.runner.Run(func() { c.enlist(in) })
	}
	return nil
}

// readConfig reads the layout of the cluster's store, or makes it.
func (c *cluster) readConfig(ctx context.Context) (shardlog.Layout, error) {
	pause := 100 * time.Millisecond
	for {
		conf, err := shardlog.OpenLayout(ctx, c.kv, c.cfg.Name, 0)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return conf, err
		}
		c.attempted(err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return conf, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// identity is what the link tells other nodes. Before the node has joined its incarnation is 0, which no node admits.
func (c *cluster) identity() link.Identity {
	k := c.self()
	id := link.Identity{
		Cluster: c.cfg.Name, Node: k.Node, Incarnation: k.Incarnation, Address: c.cfg.Advertise, Role: string(c.cfg.Role), Version: Version(),
		Namespace: c.node.cfg.Namespace,
	}
	for _, e := range c.mesh.Entries() {
		id.Functions = append(id.Functions, link.Function{Kind: e.Kind, Name: e.Name, Fingerprint: e.Fingerprint})
	}
	return id
}

// digest is one number for the whole function table, by which people compare versions.
func (c *cluster) digest() string {
	h := fnv.New64a()
	for _, e := range c.mesh.Entries() {
		fmt.Fprintf(h, "%s %s %x\n", e.Kind, e.Name, e.Fingerprint)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// duties follows the view of the cluster, one change at a time. It connects to other nodes, takes and gives up shards,
// and cleans up after nodes that are gone.
func (c *cluster) duties() {
	known := map[core.NodeKey]bool{} // the nodes of the last view, and whether each of them drained
	over := false                    // the member has ended: the Changed channel of its last view stays closed
	for {
		view := c.member.View()
		c.placer.Changed()
		now := map[core.NodeKey]bool{}
		for _, n := range view.Nodes() {
			k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
			now[k] = n.Draining && !n.Suspect
			if k == c.self() {
				continue
			}
			c.node.tasks.Avoid(n.ID, n.Suspect || n.Draining)
			if _, old := known[k]; !old {
				c.objects.NodeJoined(k)
			}
			if _, old := known[k]; !old && k.Incarnation < c.self().Incarnation {
				c.mesh.Connect(k, func(*mesh.Peer, error) {}) // of two nodes the one that joined later dials
			} else if !old && n.Info.Works() {
				c.dialBack(k)
			}
		}
		for k, drained := range known {
			if _, here := now[k]; !here {
				c.gone(k, drained)
			}
		}
		known = now
		c.duty.Lock()
		c.lead(view)
		c.duty.Unlock()
		c.reg.Retry()
		changed := view.Changed()
		if over {
			changed = nil
		}
		select {
		case <-changed:
			over = c.member.View() == view
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

// gone tells all parts of the node that an incarnation has left the cluster; left says that it had drained.
func (c *cluster) gone(k core.NodeKey, left bool) {
	c.log.Info("node gone", zap.Stringer("peer", k))
	c.placer.Gone(k)
	if left {
		c.departed.Store(c.now())
	}
	c.mesh.Gone(k, left)
	c.refs.Gone(k)
	c.objects.OwnerDied(k)
	c.actors.Gone(k)
	c.reg.Reap()
}

// lead takes the shards that are this node's and gives up those that are another's.
func (c *cluster) lead(view *member.View) {
	if c.retiring.Load() || c.ctx.Err() != nil {
		return
	}
	led := c.reg.Led()
	for n := range c.reg.Layout().Shards {
		preferred, ok := view.Preferred(n)
		mine := ok && preferred == c.self().Node
		s := led[n]
		leader, taken := c.leader(n)
		// The store was away while this node took the shard or gave it up. The key names this node, which does not
		// serve the shard.
		left := s == nil && taken && leader == c.self()
		// An operator or another program deleted the key, or wrote to it: this node can commit nothing, and no other
		// node may lead meanwhile.
		ended := s != nil && view.Ended(n, s.Epoch())
		give := s != nil && ok && !mine && c.reaches(view, preferred)
		if (mine && s == nil && !taken) || give || left || ended {
			c.mu.Lock()
			busy := c.working[n]
			c.working[n] = true
			c.mu.Unlock()
			if busy {
				continue
			}
			c.moves.Add(1)
			go func() {
				defer c.moves.Done()
				switch {
				case ended:
					c.stepDown(n, s)
				case mine:
					c.takeOver(n)
				case s != nil:
					c.handOver(n, s)
				default:
					c.giveUp(n)
				}
				c.mu.Lock()
				delete(c.working, n)
				c.mu.Unlock()
				c.poke()
			}()
		}
	}
}

// takeOver makes this node the leader of a shard.
func (c *cluster) takeOver(n int) {
	if c.reg.Led()[n] != nil {
		return // it has begun to lead since
	}
	s, err := shardlog.Lead(c.ctx, shardlog.LeadConfig{KV: c.kv, Shard: n, Session: c.member.Session(), Node: string(c.self().Node), Writers: c.writers})
	if err != nil {
		pause := 100 * time.Millisecond // else duties would look again at once
		var other *shardlog.NotLeaderError
		switch {
		case errors.As(err, &other): // the view will show that leader in a moment, unless its watch broke
			pause = 20 * time.Millisecond
		case c.ctx.Err() == nil:
			c.log.Warn("cannot lead a shard", zap.Int("shard", n), zap.Error(err))
		}
		c.runner.Pause(pause)
		return
	}
	c.reg.Lead(n, s)
	c.runner.Run(func() {
		select {
		case <-s.Done():
			c.reg.StepDown(n, s)
			if err := s.Err(); err != nil && c.ctx.Err() == nil {
				level := zap.WarnLevel
				if errors.Is(err, shardlog.ErrReleased) {
					level = zap.InfoLevel
				}
				c.log.Log(level, "shard lost", zap.Int("shard", n), zap.Error(err))
			}
			c.poke()
		case <-c.ctx.Done():
		}
	})
}

// handOver releases a shard to its preferred leader.
func (c *cluster) handOver(n int, s *shardlog.Shard) {
	ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	if err := s.Release(ctx); err != nil {
		c.log.Warn("cannot hand over a shard", zap.Int("shard", n), zap.Error(err))
	}
	c.reg.StepDown(n, s)
}

// stepDown ends a leadership whose key is not in the store any more, by the view. It asks the store first whether that
// is so.
func (c *cluster) stepDown(n int, s *shardlog.Shard) {
	ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	if err := s.Fence(ctx); !errors.Is(err, shardlog.ErrDeposed) {
		c.runner.Pause(100 * time.Millisecond) // else duties would look again at once
		return
	}
	c.reg.StepDown(n, s)
}

// giveUp lets another node take a shard whose key names this node, which does not serve it.
func (c *cluster) giveUp(n int) {
	if c.reg.Led()[n] != nil {
		return // it has begun to lead since
	}
	pause := 20 * time.Millisecond // the view will show that in a moment
	if err := shardlog.GiveUp(c.ctx, shardlog.LeadConfig{KV: c.kv, Shard: n, Session: c.member.Session()}); err != nil && c.ctx.Err() == nil {
		c.log.Warn("cannot give up a shard", zap.Int("shard", n), zap.Error(err))
		pause = 100 * time.Millisecond
	}
	c.runner.Pause(pause)
}

// poke makes duties look again.
func (c *cluster) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stateChanged follows the node's own lease.
func (c *cluster) stateChanged(s member.State, cause error) {
	c.log.Info("membership", zap.Stringer("state", s), zap.Error(cause))
	if s == member.Fenced || errors.Is(cause, raysys.ErrStoreReplaced) {
		c.node.fence(cause)
	}
	c.poke()
}

func (c *cluster) event(e member.Event) {
	fields := []zap.Field{zap.String("about", string(e.Node)), zap.Uint64("incarnation", e.Incarnation), zap.Error(e.Err)}
	switch e.Kind {
	case member.RenewalFailed, member.WatchFailed, member.VoteFailed, member.Garbage:
		c.log.Warn(string(e.Kind), fields...)
	default:
		c.log.Info(string(e.Kind), fields...)
	}
}

// leave ends the membership in order: shards first, so that other nodes lead them when this one is gone.
func (c *cluster) leave(ctx context.Context) error {
	if c.member == nil {
		c.end(raysys.ErrClosed)
		return nil // the node never joined
	}
	if c.killed.Load() != nil {
		return c.die()
	}
	err := errors.Join(c.handOverAll(ctx), c.member.Leave(ctx))
	c.end(raysys.ErrClosed)
	err = errors.Join(err, c.mesh.Close(ctx))
	c.runner.Wait()
	err = errors.Join(err, c.objects.Close())
	if c.ownKV {
		err = errors.Join(err, c.kv.Close())
	}
	return err
}

// end stops all that the cluster runs.
func (c *cluster) end(cause error) {
	c.runner.End(cause)
	c.refs.Close()
	if c.objects != nil {
		c.objects.Stop() // ends the waits in it, for which the runner would wait
	}
	c.mesh.End(cause)
	if c.reg != nil { // join came as far as making it
		c.reg.Close(cause)
	}
}

// abandon undoes a join that failed.
func (c *cluster) abandon() {
	c.runner.End(raysys.ErrClosed)
	if c.objects != nil {
		c.objects.Stop()
	}
	_ = c.mesh.Close(context.Background())
	c.runner.Wait()
	if c.objects != nil {
		_ = c.objects.Close()
	}
	if c.ownKV && c.kv != nil {
		_ = c.kv.Close()
	}
}
