package member

import (
	"cmp"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// Node is one member as this one knows it.
type Node struct {
	Info
	Incarnation uint64
	// Suspect: this member has not heard it for a while and should avoid it. Others may hear it well.
	Suspect bool
	// Joining: it is eligible to host, and no host yet.
	Joining bool
	// TTL is that of its session; 0 where its record, of a program from before, does not say it.
	TTL time.Duration

	promise time.Duration // how long its pongs hold; 0 where it cannot be an elector
	session string
	unheard []uint64
}

// Hosts reports whether the node may lead shards and have grains: it is eligible, and enough hosts had a session with it.
func (n Node) Hosts() bool { return n.Eligible() && !n.Joining }

func (n Node) is(o Node) bool { return n.Incarnation == o.Incarnation }

// guarded reports whether the node has a guard that names its electors (guard.go), if there are any.
func (n Node) guarded() bool { return n.promise > 0 && n.Works() && !n.Joining }

// before orders members by seniority: hosts before other members, and then by incarnation. Where one of two has to go
// and nothing else tells them apart, the later in this order goes.
func (n Node) before(o Node) bool {
	if n.Joining != o.Joining {
		return o.Joining
	}
	return n.Incarnation < o.Incarnation
}

// Leader is the leadership of a shard.
type Leader struct {
	Shard       int
	Epoch       uint64        // of this leadership (C9)
	Node        raysys.NodeID // "" while the leader is not, or not yet, among the nodes
	Incarnation uint64

	session string
	spoiled bool // the key was written to after it was made, so that nothing can be committed under it
}

// View is what a member knows of the cluster at one moment. It does not change.
type View struct {
	nodes     []Node   // by name
	leaders   []Leader // by shard
	preferred []raysys.NodeID
	ring      []raysys.NodeID
	self      raysys.NodeID
	at        uint64        // index of the store at which nodes were read
	leadersAt uint64        // the same for leaders
	changed   chan struct{} // closed when a newer view is there, or the member ended
}

// Changed is closed once there is a newer View, or none will come because the member ended.
func (v *View) Changed() <-chan struct{} { return v.changed }

// Nodes returns the members by name. It is the view's own: do not change it.
func (v *View) Nodes() []Node { return v.nodes }

// Node returns a member by name.
func (v *View) Node(id raysys.NodeID) (Node, bool) {
	i, ok := slices.BinarySearchFunc(v.nodes, id, func(n Node, id raysys.NodeID) int { return cmp.Compare(n.ID, id) })
	if !ok {
		return Node{}, false
	}
	return v.nodes[i], true
}

// Coming reports whether a node with this incarnation may have joined since the view was made: others may know it
// already. Incarnations are indexes of the store, so an incarnation that is not newer than the view is in it, or
// dead.
func (v *View) Coming(node raysys.NodeID, incarnation uint64) bool {
	n, ok := v.Node(node)
	return v.Precedes(incarnation) && (!ok || n.Incarnation < incarnation)
}

// Precedes reports whether the view was made before a node joined with this incarnation.
func (v *View) Precedes(incarnation uint64) bool { return incarnation > v.at }

// Incarnation returns a member by incarnation.
func (v *View) Incarnation(incarnation uint64) (Node, bool) {
	i := slices.IndexFunc(v.nodes, func(n Node) bool { return n.Incarnation == incarnation })
	if i < 0 {
		return Node{}, false
	}
	return v.nodes[i], true
}

// Leader returns the leader of the shard.
func (v *View) Leader(shard int) (Leader, bool) {
	i, ok := slices.BinarySearchFunc(v.leaders, shard, func(l Leader, shard int) int { return cmp.Compare(l.Shard, shard) })
	if !ok {
		return Leader{}, false
	}
	return v.leaders[i], true
}

// Ended reports whether the store says that a leadership is over: its key is gone, or another's, or was overwritten. A view
// from before it began says nothing of it.
func (v *View) Ended(shard int, epoch uint64) bool {
	l, ok := v.Leader(shard)
	return v.leadersAt >= epoch && (!ok || l.Epoch != epoch || l.spoiled)
}

// Preferred returns the node that should lead the shard: the rendezvous winner among the hosts. False when none may.
func (v *View) Preferred(shard int) (raysys.NodeID, bool) {
	if shard < 0 || shard >= len(v.preferred) || v.preferred[shard] == "" {
		return "", false
	}
	return v.preferred[shard], true
}

func (v *View) hosts() []raysys.NodeID {
	var ids []raysys.NodeID
	for _, n := range v.nodes {
		if n.Hosts() {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Monitors returns the up to three nodes that watch over id.
func (v *View) Monitors(id raysys.NodeID) []raysys.NodeID { return successors(v.ring, id) }

// Watched returns the nodes that this member watches over. It needs a link to each of them.
func (v *View) Watched() []raysys.NodeID { return predecessors(v.ring, v.self) }

// newView joins what the two watches and the ears of this member say.
func newView(self raysys.NodeID, shards int, nodes []Node, leaders []Leader, suspects map[uint64]bool) *View {
	v := &View{self: self, nodes: slices.Clone(nodes), leaders: slices.Clone(leaders), changed: make(chan struct{})}
	bySession := make(map[string]int, len(nodes))
	ids := make([]raysys.NodeID, len(nodes))
	for i, n := range v.nodes {
		v.nodes[i].Suspect = suspects[n.Incarnation]
		bySession[n.session] = i
		ids[i] = n.ID
	}
	// A leader's key is held by its node's session, so that the session says which node it is.
	for i, l := range v.leaders {
		if j, ok := bySession[l.session]; ok && l.session != "" {
			v.leaders[i].Node, v.leaders[i].Incarnation = v.nodes[j].ID, v.nodes[j].Incarnation
		}
	}
	v.ring = ring(ids)
	hosts := v.hosts()
	v.preferred = make([]raysys.NodeID, shards)
	for shard := range v.preferred {
		v.preferred[shard] = winner(hosts, shard)
	}
	return v
}
