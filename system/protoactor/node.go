package protoactor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"

	"github.com/raysys/raysys/system"
)

// node is proto.Actor's cluster on one node, from its start to its end.
type node struct {
	ready    chan struct{} // closed when the rest is set
	ctx      context.Context
	of       *system.Node
	cluster  *cluster.Cluster
	requests *requests
	pids     pids
	topology sync.Mutex // held while proto.Actor's list of members changes, and while a topic looks for those that left
}

// nodes has a *node for each *system.Node of the process that runs.
var nodes sync.Map

func nodeOf(n *system.Node) *node {
	if v, ok := nodes.Load(n); ok {
		return v.(*node)
	}
	v, _ := nodes.LoadOrStore(n, &node{ready: make(chan struct{})})
	return v.(*node)
}

func init() { system.OnStart(start) }

// configured are the options that Configure was given.
var configured []cluster.ConfigOption

// Configure gives options, such as cluster.WithRequestTimeout, to the cluster.Cluster of each node of this process. Call it before
// a node starts, in init or a package variable's initializer.
func Configure(opts ...cluster.ConfigOption) { configured = append(configured, opts...) }

// Cluster returns the cluster of the node under whose context the program runs: a driver's, a task's or a grain's. An actor gets it
// with cluster.GetCluster. It panics under another context.
func Cluster(ctx context.Context) *cluster.Cluster {
	n := system.NodeOf(ctx)
	if n == nil {
		panic("protoactor.Cluster: the context is of no node: use the one that system.Main, Node.Context, a task or a grain gives")
	}
	p := nodeOf(n)
	select {
	case <-p.ready:
	case <-n.Done(): // p may be new: the node's own is forgotten
		nodes.Delete(n)
	}
	return cluster.GetCluster(n.Actors())
}

// start makes the cluster of a node. Nothing of proto.Actor listens, gossips or dials.
func start(ctx context.Context, of *system.Node) error {
	n := nodeOf(of)
	n.ctx, n.of = ctx, of
	n.pids.turn()
	cfg := cluster.Configure("raysys", provider{}, lookup{n}, remote.Configure(notStarted, 0), configured...)
	cfg.ClusterContextProducer = func(c *cluster.Cluster) cluster.Context {
		n.requests = newRequests(n, c)
		return n.requests
	}
	n.cluster = cluster.New(n.system(), cfg)
	n.cluster.Remote = remote.NewRemote(n.system(), cfg.RemoteConfig) // MemberList asks it for blocked members; it is never started
	n.cluster.IdentityLookup = cfg.IdentityLookup
	if err := n.startPubSub(); err != nil {
		nodes.Delete(of)
		return err
	}
	known, changed := of.Members()
	n.cluster.MemberList.UpdateClusterTopology(membersOf(known)) // before a topic looks for those that left
	close(n.ready)
	go n.follow(known, changed)
	return nil
}

// notStarted is the address on which a program that calls StartMember or StartClient listens in vain: its panic quotes it.
const notStarted = "raysys has started this cluster: remove the call of StartMember or StartClient"

func (n *node) system() *actor.ActorSystem { return n.of.Actors() }
func (n *node) log() *slog.Logger          { return n.system().Logger() }

// await waits until start has run.
func (n *node) await(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow hands the members of raysys's cluster to that of proto.Actor, until the node ends.
func (n *node) follow(known []system.Member, changed <-chan struct{}) {
	turn := time.NewTicker(forgetAfter)
	defer turn.Stop()
	for {
		select {
		case <-changed:
		case <-turn.C:
			n.pids.turn()
			continue
		case <-n.ctx.Done():
			nodes.Delete(n.of)
			return
		}
		var list []system.Member
		list, changed = n.of.Members()
		n.topology.Lock()
		n.cluster.MemberList.UpdateClusterTopology(membersOf(list))
		n.topology.Unlock()
		for _, m := range known {
			if !slices.ContainsFunc(list, func(now system.Member) bool { return now.Actors == m.Actors }) {
				n.pids.leave(membersOf([]system.Member{m}))
				n.requests.gone(m.Actors)
			}
		}
		known = list
	}
}

// membersOf are the members in proto.Actor's words. All programs of a cluster define the same kinds.
func membersOf(list []system.Member) (members cluster.Members) {
	names := kindNames()
	for _, m := range list {
		c := &cluster.Member{Host: strings.TrimSuffix(m.Actors, ":0"), Id: m.Actors}
		if m.Role != system.Driver {
			c.Kinds = names
		}
		members = append(members, c)
	}
	return members
}

// lookup implements cluster.IdentityLookup: the anchors know where actors are.
type lookup struct{ n *node }

// Get implements cluster.IdentityLookup.
func (l lookup) Get(id *cluster.ClusterIdentity) *actor.PID {
	ctx, cancel := context.WithTimeout(l.n.ctx, l.n.cluster.Config.RequestTimeoutTime)
	defer cancel()
	pid, err := l.n.locate(ctx, id.Identity, id.Kind)
	if err != nil {
		l.n.log().Error("an actor cannot be located", slog.String("kind", id.Kind), slog.String("identity", id.Identity), slog.Any("error", err))
		return nil
	}
	return pid
}

// RemovePid implements cluster.IdentityLookup.
func (l lookup) RemovePid(id *cluster.ClusterIdentity, pid *actor.PID) {
	l.n.pids.remove(id.Identity, id.Kind, pid) // the anchor knows by itself whether its actor lives
}

// Setup implements cluster.IdentityLookup.
func (lookup) Setup(*cluster.Cluster, []string, bool) {}

// Shutdown implements cluster.IdentityLookup.
func (lookup) Shutdown() {}

// locate returns the PID of the actor with an identity, which it makes if there is none.
func (n *node) locate(ctx context.Context, identity, kind string) (*actor.PID, error) {
	b := boundOf(kind)
	if b == nil {
		return nil, fmt.Errorf("kind %q of proto.Actor is not defined in this program: protoactor.Kinds(...) in a package variable does that", kind)
	}
	at, err := b.where.Call(ctx, b.grain.Get(identity)).Get(ctx)
	if err != nil {
		return nil, err
	}
	return actor.NewPID(at.Address, at.ID), nil
}

// provider implements cluster.ClusterProvider: follow does its work.
type provider struct{}

// StartMember implements cluster.ClusterProvider.
func (provider) StartMember(*cluster.Cluster) error { return nil }

// StartClient implements cluster.ClusterProvider.
func (provider) StartClient(*cluster.Cluster) error { return nil }

// Shutdown implements cluster.ClusterProvider.
func (provider) Shutdown(bool) error { return nil }
