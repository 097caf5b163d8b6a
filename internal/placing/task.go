package placing

import (
	"errors"
	"maps"
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// PlaceTask chooses the node for a task that not every node can take, or whose values are on other nodes. A nil peer
// stands for this node.
func (pl *Placer) PlaceTask(r taskengine.PlaceRequest) (wire.Peer, error) {
	var view *placement.View
	var nodes []core.NodeCondition
	if list := r.Options.Conditions; len(list) > 0 {
		var known bool
		var err error
		if nodes, known, err = pl.Affinity.Resolve(list, core.GrainName{}, r.Since, nil); err != nil {
			return nil, err
		}
		if !known {
			return nil, notKnown{}
		}
	}
	as := send
	switch {
	case r.Needs != nil:
		as = seenOff
	case r.Move:
		as = look
	}
	var request placement.Request
	ask := func(now bool) (placement.Decision, error) {
		return pl.place(as, graindir.ID{}, func(v *placement.View) placement.Request {
			view, request = v, pl.taskRequest(r, nodes, v, now)
			return request
		})
	}
	// What holds a device goes where one is free; of two nodes drawn at random neither may have one.
	first := r.Move || len(r.Inputs) == 0 && balanced(r.Options) && len(nodes) == 0 && holdsMore(new(raysys.Resources(r.Options.Resources)))
	d, err := ask(first)
	if first && !r.Move && errors.Is(err, placement.ErrNoNode) {
		d, err = ask(false)
	}
	if err != nil {
		if r.Move && errors.Is(err, placement.ErrNoNode) {
			pl.askForRoom(request)
		}
		if asksOfGrain(r.Options.Conditions) { // nothing tells that it is elsewhere now
			pl.Affinity.pause()
		}
		if joining(pl.Member.View(), view) || !pl.reachesWorker() { // which nodes there are stays in a view
			err = notYet{err}
		}
		return nil, err
	}
	if !r.Move {
		pl.Decisions.Task(r.ID, r.Entry.Name, d)
	}
	k := core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}
	if k == pl.self() {
		return nil, nil
	}
	if p := pl.peer(k); p != nil {
		return p, nil
	}
	return nil, lostMeanwhile{k}
}

func balanced(o *core.Options) bool { return o.Strategy == "" || o.Strategy == string(raysys.Balanced) }

// taskRequest is what a task asks of its node; now: only one where it begins at once.
func (pl *Placer) taskRequest(r taskengine.PlaceRequest, nodes []core.NodeCondition, v *placement.View, now bool) placement.Request {
	out := placement.Request{
		Kind: placement.Task, Function: r.Entry.String(), Namespace: pl.Namespace, Needs: raysys.Resources(r.Options.Resources), Labels: r.Options.Labels, Conditions: registry.Conditions(nodes), Strategy: raysys.Strategy(r.Options.Strategy),
		Custom: pl.Strategies, Seed: r.ID.Lo + uint64(r.Attempt), Avoid: r.Avoid, Inputs: inputs(r.Inputs, pl.self(), v), Now: now,
	}
	if r.Move {
		out.Avoid = []raysys.NodeID{pl.self().Node}
	}
	if r.Needs != nil {
		out.Needs = raysys.Resources(*r.Needs)
	}
	return out
}

// expect corrects the load that a node reported by the tasks that this node has sent it since, and those that it has
// answered since. Many tasks are placed between two reports. Without the correction all of them would go to the node
// that was idle in the last report, and the tasks that follow from a long task would avoid the node that has just ended
// it.
func (pl *Placer) expect(n *placement.Node) {
	var l loadreport.Load
	since := 0
	if k := (core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}); k == pl.self() {
		l = pl.tasks.Load()
	} else if p := pl.peer(k); p != nil {
		load, more, known := pl.tasks.LoadOf(p)
		if !known {
			load.Free = n.Total.CPU
		}
		l, since = load, more
		// Of what is free beside CPU the last report counts: a load that came with a result is from before the task gave back what it
		// held, and may come after the report that says so.
		pl.mu.Lock()
		l.Rest = pl.loads[k].Rest
		pl.mu.Unlock()
	}
	EnterLoad(n, &l, since)
	pl.takeSent(n)
}

// EnterLoad enters the load that a node reported, which counts all but so many of the tasks of this node.
func EnterLoad(n *placement.Node, l *loadreport.Load, since int) {
	n.MeanTask, n.Line, n.Bandwidth = l.Mean, l.Line, l.Bandwidth
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
