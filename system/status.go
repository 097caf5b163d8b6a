package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

// Status is a cluster as one of its nodes sees it. Observers are not in it.
type Status struct {
	Cluster string        `json:"cluster"`
	ID      string        `json:"id"`     // random; drawn when the cluster was made
	Format  int           `json:"format"` // of the records; a program that knows only older formats cannot join
	Nodes   []NodeStatus  `json:"nodes"`
	Shards  []ShardStatus `json:"shards"`
	Demand  []Demand      `json:"demand,omitempty"` // of all nodes, the longest wait first
	Groups  []GroupDemand `json:"groups,omitempty"` // placement groups that wait for room, the longest wait first
}

// NodeStatus is one node. Fields that only the node itself knows are set when it answered in time; else Error says why
// not.
type NodeStatus struct {
	Name        raysys.NodeID     `json:"name"`
	Incarnation uint64            `json:"incarnation"`
	Address     string            `json:"address"`
	Role        Role              `json:"role"`
	Version     string            `json:"version"` // of raysys in its program
	State       string            `json:"state"`   // one of the states below
	Resources   raysys.Resources  `json:"resources"`
	Free        raysys.Resources  `json:"free"` // of Resources, what nothing holds
	Labels      map[string]string `json:"labels,omitempty"`
	PID         int               `json:"pid"`                   // of its process, on its host
	Up          time.Duration     `json:"up"`                    // since it joined, in nanoseconds
	Queued      int               `json:"queued"`                // its own tasks that wait to start
	Inbound     int               `json:"inbound"`               // tasks of other nodes that it has accepted and not answered
	BusyCPU     float64           `json:"busy_cpu"`              // CPUs that run its own tasks
	FreeCPU     float64           `json:"free_cpu"`              // CPUs that nothing holds
	MeanTask    time.Duration     `json:"mean_task"`             // running time of recent tasks, in nanoseconds
	Devices     []DeviceStatus    `json:"devices,omitempty"`     // its accelerators
	Demand      []Demand          `json:"demand,omitempty"`      // what waits for resources
	Groups      []GroupDemand     `json:"groups,omitempty"`      // placement groups that wait for room, of the shards that it leads
	Grains      map[string]int    `json:"grains"`                // activations by kind
	Peers       int               `json:"peers"`                 // nodes it is connected to
	Connected   []PeerStatus      `json:"connected"`             // those nodes
	Held        int               `json:"held"`                  // its futures that other nodes hold
	LeaseLeft   time.Duration     `json:"lease_left"`            // in nanoseconds
	NamedTasks  []NamedTask       `json:"named_tasks,omitempty"` // detached tasks with names that it has submitted or taken over, and that have not settled; they may run elsewhere
	Holding     []string          `json:"holding,omitempty"`     // of a node that drains: tasks and grains that keep it, some of them
	Error       string            `json:"error,omitempty"`
}

// NamedTask is a detached task with a name (raysys.Detached) that has not settled.
type NamedTask struct {
	Name     string `json:"name"`
	Function string `json:"function"`
	Attempt  int    `json:"attempt"` // the first is 1
	State    string `json:"state"`   // "waits" or "runs"
}

// The states of a node.
const (
	NodeActive    = "active"
	NodeSuspect   = "suspect"   // silent for a while; it may be evicted
	NodeSuspended = "suspended" // its lease ran out: it keeps its memory and takes no new work
	NodeDraining  = "draining"
	NodeJoining   = "joining" // a worker that is no host yet: too few hosts have a session with it, and Error says why
	NodeUnknown   = "unknown" // it does not answer; Error says more
)

// PeerStatus is a connection to another node.
type PeerStatus struct {
	Name    raysys.NodeID `json:"name"`
	Relayed bool          `json:"relayed,omitempty"` // through a third node: no connection of their own holds
}

// ShardStatus is the leader of one shard; Node is empty while there is none.
type ShardStatus struct {
	Shard int           `json:"shard"`
	Node  raysys.NodeID `json:"node"`
	Epoch uint64        `json:"epoch"`
}

// errInNoCluster is the error of an operator's request to a node that runs everything in one process.
var errInNoCluster = errors.New("the node is in no cluster: set RAYSYS_CONSUL")

// statusPatience is how long a node may take to answer. It only reads counters, so a second already shows that
// something is wrong.
const statusPatience = 3 * time.Second

// Status asks every node of the cluster for its status, for up to 3 s or as long as ctx lasts. A node that does not
// answer is listed with what its record says. Without a cluster it is the status of this node, and of no shards.
func (n *Node) Status(ctx context.Context) (Status, error) {
	st := Status{}
	if c := n.cluster; c != nil {
		st.Cluster, st.ID, st.Format, st.Shards = c.cfg.Name, c.reg.Layout().ID, c.reg.Layout().Format, c.shards()
	}
	members := n.members()
	answers := n.askAll(ctx, members, adminRequest{op: adminStatus})
	for _, m := range members {
		s := known(m)
		switch k := mesh.KeyOf(m); {
		case answers[k].err != nil && m.Joining:
			s.Error = fmt.Sprintf("%s cannot reach it: %v", n.cfg.Name, answers[k].err)
		case answers[k].err != nil:
			s.State, s.Error = NodeUnknown, answers[k].err.Error()
		default:
			s = s.with(answers[k].answer.Status)
		}
		st.Nodes = append(st.Nodes, s)
		st.Demand = append(st.Demand, s.Demand...)
		st.Groups = append(st.Groups, s.Groups...)
	}
	st.Demand, st.Groups = summed(st.Demand), summedGroups(st.Groups)
	slices.SortFunc(st.Nodes, func(a, b NodeStatus) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return st, nil
}

// shards are the leaders of all shards, as this node knows them.
func (c *cluster) shards() (list []ShardStatus) {
	view := c.member.View()
	for i := range c.reg.Layout().Shards {
		sh := ShardStatus{Shard: i}
		if l, ok := view.Leader(i); ok {
			sh.Node, sh.Epoch = l.Node, l.Epoch
		}
		list = append(list, sh)
	}
	return list
}

// known is the status of a node by its record, which every node has.
func known(m member.Node) NodeStatus {
	s := NodeStatus{
		Name: m.ID, Incarnation: m.Incarnation, Address: m.Info.Address, Role: roleOf(m.Info), Version: m.Info.Version,
		Resources: m.Info.Resources, Labels: m.Info.Labels, State: NodeActive,
	}
	switch {
	case m.Info.Draining:
		s.State = NodeDraining
	case m.Joining:
		s.State = NodeJoining
	case m.Suspect:
		s.State = NodeSuspect
	}
	return s
}

// report is this node's status by itself.
func (n *Node) report() NodeStatus {
	k := n.self()
	l := n.tasks.Load()
	s := NodeStatus{
		Name: k.Node, Incarnation: k.Incarnation, PID: os.Getpid(), Free: n.tasks.Free(), Up: time.Since(n.startedAt()),
		Queued: l.Queued, Inbound: l.Inbound, BusyCPU: l.Busy, FreeCPU: l.Free, MeanTask: l.Mean,
		Grains: n.grains.Kinds(), Devices: n.devices(), Demand: n.demand(), Groups: n.groupDemand(),
	}
	if n.job.Tasks != nil {
		for _, j := range n.job.Tasks.ListTasks() {
			s.NamedTasks = append(s.NamedTasks, NamedTask(j))
		}
	}
	c := n.cluster
	if c == nil {
		return s
	}
	s.Up, s.Held, s.LeaseLeft, s.Holding = time.Since(c.info.Started), c.refs.Exported(), c.member.Lease(), c.holding()
	if c.member.State() == member.Suspended {
		s.State = NodeSuspended
	}
	if why := c.whyNoHost(); why != "" && s.State == "" {
		s.State, s.Error = NodeJoining, why
	}
	for _, p := range c.mesh.Connected() {
		s.Connected = append(s.Connected, PeerStatus{p.Node(), p.Relayed()})
	}
	s.Peers = len(s.Connected)
	slices.SortFunc(s.Connected, func(a, b PeerStatus) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return s
}

// with adds the fields that the node itself reported.
func (s NodeStatus) with(own NodeStatus) NodeStatus {
	s.PID = own.PID
	s.Free, s.Up, s.Queued, s.Inbound, s.BusyCPU, s.FreeCPU, s.MeanTask = own.Free, own.Up, own.Queued, own.Inbound, own.BusyCPU, own.FreeCPU, own.MeanTask
	s.Grains, s.Peers, s.Connected, s.Held, s.LeaseLeft = own.Grains, own.Peers, own.Connected, own.Held, own.LeaseLeft
	s.NamedTasks, s.Holding, s.Devices, s.Demand, s.Groups = own.NamedTasks, own.Holding, own.Devices, own.Demand, own.Groups
	if own.State != "" {
		s.State, s.Error = own.State, own.Error
	}
	return s
}
