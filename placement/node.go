package placement

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
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
	Crowded     bool                       // near its memory limit: avoided
	Joining     bool                       // not yet known to be reachable: takes nothing but its own tasks
	Draining    bool                       // about to leave: takes nothing
	Runs        func(function string) bool // has that entry in its table; nil has all
}

// shunned reports whether the node is taken only where no other fits.
func (n *Node) shunned() bool { return n.Suspect || n.Crowded }

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

// copied is a copy that an assignment takes resources from.
func (n *Node) copied() *Node {
	c := *n
	c.Free.Custom = maps.Clone(c.Free.Custom)
	c.Devices = slices.Clone(c.Devices)
	return &c
}

// load is the tasks per CPU.
func (n *Node) load() float64 { return float64(n.Queued+n.Running) / n.size() }

// hosts reports whether bundles of g may be on the node, as far as that does not pass.
func (n *Node) hosts(g *GroupRequest) bool {
	return n.Worker && (g.Namespace == "" || n.Namespace == g.Namespace)
}

// hasDevices reports whether the node has the devices of needs: a share of one device, or whole ones. Of a node that does not
// list its devices only their number is known.
func (n *Node) hasDevices(needs *raysys.Resources, w when) bool {
	if needs.GPU <= 0 {
		return true
	}
	if n.Devices == nil {
		have := n.Total.GPU
		if w == free {
			have = n.Free.GPU
		}
		return needs.GPU <= have+slack && needs.GPUModel == "" && needs.GPUMemory == 0
	}
	left := max(needs.GPU, 1)
	for i := range n.Devices {
		if n.Devices[i].has(needs, w) {
			if left--; left < slack {
				return true
			}
		}
	}
	return false
}

// enterDevices adds sign times needs to what is free of the devices: a share is taken where the least is left, and given back
// where the least is.
func (n *Node) enterDevices(needs *raysys.Resources, sign float64) {
	if needs.GPU <= 0 {
		return
	}
	for left := max(needs.GPU, 1); left >= slack; left-- {
		var best *Device
		for i := range n.Devices {
			d := &n.Devices[i]
			fits := d.has(needs, free)
			if sign > 0 {
				fits = d.has(needs, idle) && d.FreeShare+min(needs.GPU, 1) <= d.total()+slack
			}
			if fits && (best == nil || d.FreeShare < best.FreeShare) {
				best = d
			}
		}
		if best == nil {
			return // what was placed there did not fit, as far as is known
		}
		best.FreeShare += sign * min(needs.GPU, 1)
		best.FreeMemory += int64(sign) * needs.GPUMemory
	}
}

// Short says, a line each, of which resources less than needs asks for is free on the node.
func (n *Node) Short(needs raysys.Resources) []string {
	now, ever := 0, 0
	for i := range n.Devices {
		if n.Devices[i].has(&needs, idle) {
			ever++
		}
		if n.Devices[i].has(&needs, free) {
			now++
		}
	}
	if n.Devices == nil && n.hasDevices(&needs, free) {
		now = int(max(needs.GPU, 1))
	}
	if n.Devices == nil {
		ever = int(n.Total.GPU)
	}
	return core.Short(core.Resources(needs), core.Resources(n.Free), core.Resources(n.Total), now, ever)
}

// Move estimates how long it takes until the inputs of a task are on the node.
func (n *Node) Move(in Inputs) time.Duration {
	bytes := in.missing(n)
	if bytes == 0 {
		return 0
	}
	rate := float64(n.Bandwidth)
	if rate <= 0 {
		rate = unknownBandwidth
	}
	return time.Duration(min(float64(bytes)/rate*float64(time.Second), longest))
}

// Take takes needs from what is free on the node.
func (n *Node) Take(needs raysys.Resources) { n.release(&needs, -1) }

// release adds sign times needs to the free resources.
func (n *Node) release(needs *raysys.Resources, sign float64) {
	n.Free.CPU += sign * needs.CPU
	n.Free.GPU += sign * needs.GPU
	n.enterDevices(needs, sign)
	n.Free.Memory += int64(sign) * needs.Memory
	for name, amount := range needs.Custom {
		if n.Free.Custom == nil {
			n.Free.Custom = map[string]float64{}
		}
		n.Free.Custom[name] += sign * amount
	}
}
