package placing

import (
	"maps"
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/placement"
)

func balanced(o *core.Options) bool { return o.Strategy == "" || o.Strategy == string(raysys.Balanced) }

// EnterLoad enters the load that a node reported, which counts all but so many of the tasks of this node.
func EnterLoad(n *placement.Node, l *loadreport.Load, since int) {
	n.MeanTask, n.Line, n.Bandwidth, n.Crowded = l.Mean, l.Line, l.Bandwidth, l.Memory != loadreport.Roomy
	there := l.Busy + float64(l.Inbound-l.InboundShaped-l.Parked+since) // of the shaped ones, Busy counts those that run and Queued those that wait
	run := float64(l.InboundShaped - min(l.InboundShaped, l.Shaped))
	n.Running = int(max(min(max(there, run), math.Ceil(n.Total.CPU)), 0)) // those that have no CPU run, too
	free := min(l.Free, n.Total.CPU) - float64(since)
	if since < 0 { // tasks that waited there may have taken the CPUs of the answered ones
		free = min(free, n.Total.CPU-there)
	}
	n.Free.CPU = max(free, 0)
	n.Queued = 0
	if n.Free.CPU < 1 {
		n.Queued = l.Queued + max(int(there-n.Total.CPU), 0)
	}
	SetFree(n, l.Rest)
}

// SetFree enters what a node reports to be free of all but CPU. It believes no more than what the node's record says.
func SetFree(n *placement.Node, rest string) {
	r, err := loadreport.ReadRest(rest)
	if err != nil || r == nil {
		n.Free.Memory, n.Free.GPU = n.Total.Memory, n.Total.GPU
		n.Free.Custom = maps.Clone(n.Total.Custom)
		for i := range n.Devices {
			d := &n.Devices[i]
			d.FreeShare, d.FreeMemory, d.Sick = float64(nodedevices.Share(d.Device))/ledger.Unit, d.Memory, false
		}
		return
	}
	n.Free.Memory = min(r.Memory, n.Total.Memory)
	n.Free.Custom = make(map[string]float64, len(n.Total.Custom))
	for k, total := range n.Total.Custom {
		n.Free.Custom[k] = min(float64(r.Custom[k])/ledger.Unit, total)
	}
	n.Free.GPU = 0
	for i := range n.Devices {
		d := &n.Devices[i]
		d.FreeShare, d.FreeMemory, d.Sick = 0, 0, true // that the report has no such device is no reason to choose it
		if i < len(r.Devices) {
			f := r.Devices[i]
			d.FreeShare, d.FreeMemory, d.Sick = float64(min(f.Share, nodedevices.Share(d.Device)))/ledger.Unit, min(f.Memory, d.Memory), f.Sick
			n.Free.GPU += d.FreeShare
		}
	}
}

// inputs says how many bytes of a task's values each of nodes has.
func inputs(list []core.Whereabouts, self core.NodeKey, v *placement.View) (in placement.Inputs) {
	if len(list) == 0 {
		return in
	}
	in.At = map[raysys.NodeID]int64{}
	for _, w := range list {
		in.Bytes += w.Size
		k := w.NodeKey
		if w.Here || k == self {
			in.At[self.Node] += w.Size
		}
		if k != self && connected(v, k) { // another incarnation of the node does not have the value
			in.At[w.Node] += w.Size
		}
	}
	return in
}

// joining reports whether a worker of the cluster is not in the view of placement: this node is not connected to it, or not yet.
func joining(members *member.View, v *placement.View) bool {
	for _, m := range members.Nodes() {
		if m.Info.Works() && !connected(v, core.NodeKey{Node: m.ID, Incarnation: m.Incarnation}) {
			return true
		}
	}
	return false
}

// notYet: no connected node can take the task, but a worker that is not connected may, or one that has yet to start.
type notYet struct{ error }

func (e notYet) Unwrap() error { return e.error }
func (notYet) Temporary() bool { return true }

// lostMeanwhile: the node that was chosen is not connected any more. The next attempt chooses another.
type lostMeanwhile struct{ k core.NodeKey }

func (e lostMeanwhile) Error() string   { return "node " + e.k.String() + " was chosen and left" }
func (e lostMeanwhile) Temporary() bool { return true }
