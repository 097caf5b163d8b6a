package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/remote"
	"github.com/raysys/raysys/internal/tlsfiles"
)

// Join makes the node a member of its cluster. While the store cannot be reached it tries again and logs that, until
// ctx ends or Cluster.JoinTimeout is over.
func (c *Cluster) Join(ctx context.Context) (err error) {
	cfg, job := &c.cfg, c.parts.Job
	ctx, cancel := c.entry.limit(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			c.abandon()
			err = fmt.Errorf("join cluster %q: %w", cfg.Cluster, err)
		}
	}()
	if c.KV == nil {
		if c.KV, err = cfg.Open(); err != nil {
			return err
		}
		c.ownKV = true
	}
	c.Store = &StoreTimes{KV: c.KV}
	conf, err := c.entry.layout(ctx, c.Store)
	if err != nil {
		return err
	}
	transport, err := cfg.Transport()
	if err != nil {
		return err
	}
	if err := c.entry.sameWire(ctx, c.Store, transport.Print); err != nil {
		return err
	}
	c.Registry = registry.New(registry.Config{
		Members: clusterMembers{c}, Actors: c.parts.Actors, Runner: c.Runner, Layout: conf, Namespace: cfg.Namespace, Strategies: cfg.Strategies,
		AskBundles: c.groups.Ask, Expecting: c.Placer.Expecting, Removed: func(group string, by core.NodeKey) { c.operator.Asked("remove "+group, by) }, Placed: c.parts.Decisions.Placed, PlacedIn: c.parts.Decisions.PlacedIn,
		Fire:     func(at core.NodeKey, list []due.Item, refused func([]due.Item, error)) { fire(c, at, list, refused) },
		Wall:     func() time.Time { return wall(c) },
		Asked:    c.operator.Asked,
		HandOver: func(worker core.NodeKey, k registry.TaskKey) { c.Refs.TakeAt(worker, k.Run, k.ID) },
	})
	c.Placer.Registry = c.Registry
	c.Directory = registry.NewDirectory(c.Registry)
	if c.objects, err = c.parts.Objects(); err != nil {
		return err
	}
	c.Refs.SetObjects(c.objects)
	if cfg.Durable {
		l := lineage.New(lineage.Config{
			Tasks: registry.NewTasks(c.Registry), States: c.Registry, Refs: c.Refs, Engine: c.tasks, Runner: c.Runner, Job: job, JobOf: c.job, Self: c.Self, Alive: c.Mesh.Alive,
			Driver: !cfg.Record.Works(),
			Log:    c.parts.Log.Sugar().Warnw,
		})
		c.Refs.SetLineage(l)
		job.Gate, job.Tasks, c.Lineage = l, l, l
	}
	c.Network = transport
	if cfg.Parts.Unproven {
		conf.Secret = nil
	}
	if err = c.Mesh.Listen(link.Config{
		Self: c.identity, Transport: transport, Listen: cfg.Listen, Secret: conf.Secret, Chaos: cfg.Parts.Chaos,
		BriskEvery: cfg.Silence / 20,
	}); err != nil {
		return err
	}
	addr := cfg.Advertise
	if addr == "" {
		addr = c.Mesh.Addr()
	}
	c.Info = cfg.Record
	c.Info.Address, c.Info.Functions, c.Info.KeyPrint, c.Info.Started, c.Info.Proves = addr, c.digest(), transport.Print, time.Now(), len(conf.Secret) > 0
	c.Member, err = member.Join(ctx, member.Config{
		KV: c.Store, Cluster: cfg.Cluster, ClusterID: conf.ID, Shards: conf.Shards, TTL: cfg.TTL, Silence: cfg.Silence,
		Clock: cfg.Parts.Clock, Prober: c.Mesh.Prober(), Ballots: c.Mesh.Prober(),
		Self: c.Info, OnState: c.stateChanged, OnAttempt: func(a member.Attempt) { c.entry.failed(a.Err) }, OnEvent: c.event, Sweep: sweeper(c),
	})
	if err != nil {
		return err
	}
	sayOnAgent(c)
	c.Placer.Member = c.Member
	job.Run = c.Member.Incarnation()
	c.Mesh.Joined(c.Member)
	c.parts.Actors.ProcessRegistry.Address = remote.Address(c.Self()) // no actor has been spawned yet
	c.parts.Actors.ProcessRegistry.RegisterAddressResolver(c.actors.Resolve)
	c.Runner.Run(c.objects.Recover)
	c.Runner.Run(c.Placer.TellLoad)
	c.Runner.Run(c.duties)
	if !cfg.Record.Works() && !cfg.Record.Observer {
		c.Runner.Run(func() { sayWaiting(c) })
	}
	if c.TLS = c.watchFiles(transport); c.TLS != nil && !cfg.Record.Observer {
		c.Runner.Run(func() { c.TLS.Run(c.Runner.Pause) })
	}
	if cfg.Record.Works() {
		c.Runner.Run(c.seekSessions)
	}
	if rebalances(c) {
		c.Runner.Run(func() { rebalance(c) })
	}
	if in, ok := c.KV.(catalog); ok && !cfg.Record.Observer {
		c.Runner.Run(func() { enlist(c, in) })
	}
	return nil
}

// identity is what the link tells other nodes. Before the node has joined its incarnation is 0, which no node admits.
func (c *Cluster) identity() link.Identity {
	k := c.Self()
	id := link.Identity{
		Cluster: c.cfg.Cluster, Node: k.Node, Incarnation: k.Incarnation, Address: c.cfg.Advertise, Role: c.cfg.Role, Version: c.cfg.Record.Version,
		Namespace: c.cfg.Namespace,
	}
	for _, e := range c.Mesh.Entries() {
		id.Functions = append(id.Functions, link.Function{Kind: e.Kind, Name: e.Name, Fingerprint: e.Fingerprint})
	}
	return id
}

// digest is one number for the whole function table, by which people compare versions.
func (c *Cluster) digest() string {
	h := fnv.New64a()
	for _, e := range c.Mesh.Entries() {
		fmt.Fprintf(h, "%s %s %x\n", e.Kind, e.Name, e.Fingerprint)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// duties follows the view of the cluster, one change at a time. It connects to other nodes, takes and gives up shards,
// and cleans up after nodes that are gone.
func (c *Cluster) duties() {
	known := map[core.NodeKey]member.Node{} // the nodes of the last view
	over := false                           // the member has ended: the Changed channel of its last view stays closed
	for {
		view := c.Member.View()
		c.Placer.Changed()
		now := map[core.NodeKey]member.Node{}
		for _, n := range view.Nodes() {
			k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
			now[k] = n
			if k == c.Self() {
				continue
			}
			c.tasks.Avoid(n.ID, n.Suspect || n.Draining)
			if _, old := known[k]; !old {
				c.objects.NodeJoined(k)
			}
			if _, old := known[k]; !old && k.Incarnation < c.Self().Incarnation {
				c.Mesh.Connect(k, func(*mesh.Peer, error) {}) // of two nodes the one that joined later dials
			} else if !old && n.Info.Works() {
				// That node dials, but may be unable to: dial it, unless it has by then. One connection between two nodes is enough.
				c.Runner.After(c.times.Dial, func() { c.Mesh.Connect(k, func(*mesh.Peer, error) {}) })
			}
		}
		for k, n := range known {
			if _, here := now[k]; !here {
				c.gone(k, n)
			}
		}
		known = now
		c.Shards.duty.Lock()
		c.Shards.lead(view)
		c.Shards.duty.Unlock()
		c.Registry.Retry()
		changed := view.Changed()
		if over {
			changed = nil
		}
		select {
		case <-changed:
			over = c.Member.View() == view
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

// gone tells all parts of the node that an incarnation has left the cluster; last is what the view knew of it. One that
// was heard until now may have left by itself, with answers on their way: the view that says that it drains may have
// been skipped.
func (c *Cluster) gone(k core.NodeKey, last member.Node) {
	c.Log.Info("node gone", zap.Stringer("peer", k))
	c.Placer.Gone(k)
	if last.Draining && !last.Suspect {
		c.departed.Store(c.Runner.Now())
	}
	c.Mesh.Gone(k, !last.Suspect)
	c.Refs.Gone(k)
	c.objects.NodeGone(k)
	c.actors.Gone(k)
	c.Registry.Reap()
}

// Poke makes duties look again.
func (c *Cluster) Poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stateChanged follows the node's own lease.
func (c *Cluster) stateChanged(s member.State, cause error) {
	c.Log.Info("membership", zap.Stringer("state", s), zap.Error(cause))
	if s == member.Fenced || errors.Is(cause, raysys.ErrStoreReplaced) {
		c.fence(cause)
	}
	c.Poke()
}

func (c *Cluster) event(e member.Event) {
	fields := []zap.Field{zap.String("about", string(e.Node)), zap.Uint64("incarnation", e.Incarnation), zap.Error(e.Err)}
	if e.Why != "" {
		fields = append(fields, zap.String("why", e.Why))
	}
	switch e.Kind {
	case member.RenewalFailed, member.WatchFailed, member.VoteFailed, member.Garbage, member.PromiseOut:
		c.Log.Warn(string(e.Kind), fields...)
	default:
		c.Log.Info(string(e.Kind), fields...)
	}
}

// Leave ends the membership in order: shards first, so that other nodes lead them when this one is gone.
func (c *Cluster) Leave(ctx context.Context) error {
	if c.Member == nil {
		c.end(raysys.ErrClosed)
		return nil // the node never joined
	}
	if c.killed.Load() != nil {
		return c.die()
	}
	var recorded map[*core.Future]bool
	if c.Lineage != nil {
		recorded = lineage.Needed(c.Lineage)
	}
	objects.LetGo(ctx, c.objects, recorded)
	err := errors.Join(c.Shards.handOverAll(ctx), c.Member.Leave(ctx))
	c.end(raysys.ErrClosed)
	err = errors.Join(err, c.Mesh.Close(ctx))
	c.Runner.Wait()
	err = errors.Join(err, c.objects.Close())
	if c.ownKV {
		err = errors.Join(err, c.KV.Close())
	}
	return err
}

// end stops all that the cluster runs.
func (c *Cluster) end(cause error) {
	c.Runner.End(cause)
	c.Refs.Close()
	if c.objects != nil {
		c.objects.Stop() // ends the waits in it, for which the runner would wait
	}
	c.Mesh.End(cause)
	if c.Registry != nil { // join came as far as making it
		c.Registry.Close(cause)
	}
}

// abandon undoes a join that failed.
func (c *Cluster) abandon() {
	c.Runner.End(raysys.ErrClosed)
	if c.objects != nil {
		c.objects.Stop()
	}
	_ = c.Mesh.Close(context.Background())
	c.Runner.Wait()
	if c.objects != nil {
		_ = c.objects.Close()
	}
	if c.ownKV && c.KV != nil {
		_ = c.KV.Close()
	}
}

// fence ends the node. Its session is gone, so other nodes have taken over its shards and grains, or will. Leave closes
// its connections, and so do the other nodes as soon as they see that it is gone.
func (c *Cluster) fence(cause error) {
	c.Log.Warn("fenced", zap.Error(cause))
	if cause == nil {
		cause = raysys.ErrFenced
	}
	c.parts.Stop(cause)
	c.end(cause)
}

// recordLimit bounds one attempt to write the fingerprint of a new key to the node's record.
const recordLimit = 5 * time.Second

// watchFiles has new files of TLS used; nil where the node does not speak TLS.
func (c *Cluster) watchFiles(t Transport) *tlsfiles.Watcher {
	files, ok := t.Transport.(*link.TLS)
	if !ok {
		return nil
	}
	return tlsfiles.New(tlsfiles.Config{
		TLS: files, Cert: c.cfg.Cert, CA: c.cfg.CA, Log: c.Log,
		Allow: func(cert *x509.Certificate) error { return c.cfg.Allow(cert, c.cfg.Record) },
		Record: func(print string) error {
			ctx, cancel := context.WithTimeout(c.ctx, recordLimit)
			defer cancel()
			return c.Member.Update(ctx, func(i *member.Info) { i.KeyPrint = print })
		},
		Distrust: func() { c.Mesh.EndDistrusted(files) },
	})
}
