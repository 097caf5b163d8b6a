package inspect

import (
	"slices"
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
	Mixed   []Mixed       `json:"mixed,omitempty"`  // functions in which builds of one program differ, at most 200
}

// Mixed is a function of a program that not all of its nodes have in the same version: a call goes only among nodes
// with the same.
type Mixed struct {
	Namespace string `json:"namespace"` // of the program
	Function  string `json:"function"`  // "task square", "method counter.add"
	// Versions has the nodes with each, by the fingerprint of its types, and under "" those without the function.
	Versions map[string][]raysys.NodeID `json:"versions"`
}

// VersionOn returns the version that a node has, "" for none. ok is false of a node of which nothing is known.
func (m *Mixed) VersionOn(node raysys.NodeID) (version string, ok bool) {
	for version, nodes := range m.Versions {
		if slices.Contains(nodes, node) {
			return version, true
		}
	}
	return "", false
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
	Memory      MemoryUse         `json:"memory"`
	PID         int               `json:"pid"`                   // of its process, on its host
	Up          time.Duration     `json:"up"`                    // since it joined, in nanoseconds
	Queued      int               `json:"queued"`                // its own tasks that wait to start
	Shaped      int               `json:"shaped,omitempty"`      // of these, those that Demand has
	Inbound     int               `json:"inbound"`               // tasks of other nodes that it has accepted and not answered
	BusyCPU     float64           `json:"busy_cpu"`              // CPUs that run its own tasks
	FreeCPU     float64           `json:"free_cpu"`              // CPUs that nothing holds
	MeanTask    time.Duration     `json:"mean_task"`             // running time of recent tasks, in nanoseconds
	Devices     []DeviceStatus    `json:"devices,omitempty"`     // its accelerators
	Demand      []Demand          `json:"demand,omitempty"`      // what waits for resources
	Groups      []GroupDemand     `json:"groups,omitempty"`      // placement groups that wait for room, of the shards that it leads
	Grains      map[string]int    `json:"grains"`                // activations by kind
	Balance     *GrainBalance     `json:"balance,omitempty"`     // of a worker whose grains move to even out the load
	Late        []Grain           `json:"late,omitempty"`        // in late turns, the longest first, ten at most
	Peers       int               `json:"peers"`                 // nodes it is connected to
	Connected   []PeerStatus      `json:"connected"`             // those nodes
	Held        int               `json:"held"`                  // its futures that other nodes hold
	LeaseLeft   time.Duration     `json:"lease_left"`            // in nanoseconds
	TTL         time.Duration     `json:"ttl"`                   // its lease, in nanoseconds; 0: not known
	Electors    []raysys.NodeID   `json:"electors,omitempty"`    // of a worker: who may replace it when it is silent
	PromiseLeft time.Duration     `json:"promise_left"`          // in nanoseconds: how long it answers from memory
	NamedTasks  []NamedTask       `json:"named_tasks,omitempty"` // detached tasks with names that it has submitted or taken over, and that have not settled; they may run elsewhere
	Holding     []string          `json:"holding,omitempty"`     // of a node that drains: tasks and grains that keep it, some of them
	Grace       time.Duration     `json:"grace,omitempty"`       // of a node that can restart: what its drain may take
	Error       string            `json:"error,omitempty"`
}

// GrainBalance is a worker's share of the work of grains, of the last 5 s.
type GrainBalance struct {
	Load     float64 `json:"load"`          // how much of each of its CPUs the turns of its grains take
	Mean     float64 `json:"mean"`          // the same of all workers
	Standing int     `json:"standing"`      // its grains that are spread by their number
	Moved    uint64  `json:"moved"`         // grains that have moved from it to others since it started
	Why      string  `json:"why,omitempty"` // why none moves now, where that is not for want of a reason
}

// MemoryUse is what a node's process has of memory, in bytes; all 0 where the node did not say.
type MemoryUse struct {
	Resident int64 `json:"resident"` // of the machine's memory, as the operating system counts it
	Heap     int64 `json:"heap"`     // Go's heap, with what the next collection frees
	Limit    int64 `json:"limit"`    // that it may have: system.Config.MemoryLimit, the least limit of its cgroups, or the machine's memory

	Used     int64  `json:"used,omitempty"`     // what counts against Limit; 0 where nobody looks after it
	State    string `json:"state,omitempty"`    // "crowded": it lets go of idle grains; "full": it starts none
	Unloaded uint64 `json:"unloaded,omitempty"` // grains that it let go for want of memory, since its start
	Refused  uint64 `json:"refused,omitempty"`  // grains that it did not start for want of memory, since its start
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
