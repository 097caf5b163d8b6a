package inspect

import (
	"time"

	"github.com/raysys/raysys"
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
	Role        string            `json:"role"`    // worker, driver or both
	Version     string            `json:"version"` // of raysys in its program
	State       string            `json:"state"`   // one of the states below
	Build       string            `json:"build"`   // of its program: the first 8 digits of the file's SHA-256; nodes of one build run the same file
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

// Drained is the outcome of a drain.
type Drained struct {
	Took  time.Duration `json:"took_ns"`
	Left  int           `json:"left"`            // how many objects other nodes keep now
	Lost  int           `json:"lost"`            // how many objects that others need end with the node
	Why   string        `json:"why,omitempty"`   // why the first of them is lost
	Error string        `json:"error,omitempty"` // what was not done in time
}
