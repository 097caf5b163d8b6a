package placement

import (
	"math"
	"time"

	"github.com/raysys/raysys"
)

// Node is what the caller believes of one node. ID, Incarnation, Namespace, Total, Labels, Worker and Runs are fixed once
// the node is in a View; the rest may be corrected there as reports come in.
type Node struct {
	ID          raysys.NodeID
	Incarnation uint64
	Namespace   string           // of its functions: nodes of several programs may be in one cluster (rule C2)
	Total       raysys.Resources // the resources of the node
	Free        raysys.Resources // the resources that are free now
	Devices     []Device         // its accelerators; nil where only their number is known
	Queued      int              // tasks that wait to start
	Running     int              // tasks that run
	MeanTask    time.Duration    // running time of its recent tasks; 0 is unknown
	Line        time.Duration    // how long work waits there that asks for other than one CPU and finds it taken; 0 is unknown
	Bandwidth   int64            // bytes per second at which objects have come to it lately; 0 is unknown
	Grains      int              // activations it hosts
	Labels      map[string]string
	Worker      bool                       // hosts grains and takes tasks of others
	Suspect     bool                       // silent for a while: avoided
	Joining     bool                       // not yet known to be reachable: takes nothing but its own tasks
	Draining    bool                       // about to leave: takes nothing
	Runs        func(function string) bool // has that entry in its table; nil has all
}

// unknownTask stands for the running time of a task on a node that has not measured one: long enough that a queue
// there counts for something, short enough that a first batch does not divert all later tasks.
const unknownTask = time.Millisecond

// Wait estimates how long a task with these needs would wait before it starts: nothing where it fits now and no task
// is ahead, else the work ahead of it divided by the CPUs that do it, or where it waits for other than one CPU what the node
// says of that.
func (n *Node) Wait(needs raysys.Resources) time.Duration {
	fits := n.hasNow(&needs)
	if n.Queued <= 0 && fits {
		return 0
	}
	mean := float64(n.MeanTask)
	if mean <= 0 {
		mean = float64(unknownTask)
	}
	w := float64(max(n.Queued, 0)) * mean / n.size()
	if !fits {
		w += mean / 2 // the running task is on average half done
		if needs.CPU != 1 || needs.GPU > 0 || needs.Memory > 0 || len(needs.Custom) > 0 {
			w = max(w, float64(n.Line))
		}
	}
	return time.Duration(min(w, math.MaxInt64/2))
}

// size is the weight of the node among others: its CPUs. One that offers less than a CPU still has a network and
// memory to host grains with.
func (n *Node) size() float64 {
	if n.Total.CPU > 1 { // false for what is no number
		return n.Total.CPU
	}
	return 1
}

// milli is size in thousandths, the finest share there is.
func (n *Node) milli() uint64 { return uint64(min(n.size(), 1e6) * 1000) }

// hasNow reports whether what is free on the node is enough for needs.
func (n *Node) hasNow(needs *raysys.Resources) bool {
	return covers(&n.Free, needs) && n.hasDevices(needs, free)
}

// everHas reports whether what the node has is enough for needs once nothing holds it.
func (n *Node) everHas(needs *raysys.Resources) bool {
	return covers(&n.Total, needs) && n.hasDevices(needs, idle)
}

// covers reports whether have is enough for want, but for devices.
func covers(have, want *raysys.Resources) bool {
	if want.CPU > have.CPU+slack || want.Memory > have.Memory {
		return false
	}
	for name, n := range want.Custom {
		if n > have.Custom[name]+slack {
			return false
		}
	}
	return true
}
