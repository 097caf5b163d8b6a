package system

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/operate"
	"github.com/raysys/raysys/internal/remote"
)

// Member is a node of the cluster by its record, which every node has.
type Member struct {
	Name        raysys.NodeID
	Incarnation uint64 // grows with each start of a node; 0 without a cluster
	Address     string // where other nodes connect to it
	Actors      string // the Address of the PIDs of its actors
	Role        Role
	State       string // NodeActive, NodeSuspect, NodeDraining or NodeJoining
	Version     string // of raysys in its program
	Resources   raysys.Resources
	Labels      map[string]string
}

// Members returns the members of the cluster as this node knows them at this moment, by name, and a channel that is closed when
// that has changed, or will not change any more because the node has ended. A node that died is gone from it, and one that
// started again is a Member of another Incarnation. Without a cluster this node is the only one, and the channel is nil. There
// are none before Start.
func (n *Node) Members() ([]Member, <-chan struct{}) {
	n.mu.Lock()
	started := n.state >= stateStarted
	n.mu.Unlock()
	if !started {
		return nil, nil
	}
	var changed <-chan struct{}
	if n.cluster != nil {
		changed = n.cluster.Member.View().Changed() // before the members are read, so that no change is missed
	}
	var list []Member
	for _, m := range n.operator.Members() {
		s := operate.Known(m)
		actors := n.actors.Address()
		if k := mesh.KeyOf(m); k != n.operator.Self() {
			actors = remote.Address(k)
		}
		list = append(list, Member{s.Name, s.Incarnation, s.Address, actors, Role(s.Role), s.State, s.Version, s.Resources, s.Labels})
	}
	return list, changed
}
