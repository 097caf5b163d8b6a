package placing

import (
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/placement"
)

// nodeView is the nodes as the decisions of this node see them. It is kept while the members and their connections stay, and
// the loads are read when a decision compares nodes.
type nodeView struct {
	mu      sync.Mutex
	view    *placement.View
	members uint64 // Placer.members when view was made
	sent    map[core.NodeKey][]sentWork
}

// sentWork is what this node has seen off to another, and did not send there itself, that holds more than one CPU: grains, and tasks that
// it gave back. Until a report of that node counts it, what it holds is taken from what the last report says is free: many decisions
// are made between two reports. Of the tasks that this node sends, the reports say which they count (loadreport.Append).
type sentWork struct {
	needs raysys.Resources
	until int64       // on the node's clock: reports count it from then on, if it has come
	grain graindir.ID // zero for a task
}

const (
	// givenBackFor is how long a task that was given back is on its way at most: its node places it again within 5 ms. A call of a stateless
	// kind takes no longer, and a grain that is seen off has left by then, or stays: it may begin here meanwhile. It must be less than restEvery, or the second of two devices that become free one after the other is taken to be the first.
	givenBackFor = 15 * time.Millisecond
	// grainFor is the same for a grain that has left. Its shard commits twice: that the grain is gone from here, and where it is placed.
	// This node sees the first commit and assumes that the second takes as long. The leader may choose another node than the one
	// this node expects: then a device of the expected node is free, and this node believes it held.
	grainFor = 3 * loadEvery
)

// use is what becomes of a decision.
type use uint8

const (
	look    use = iota // nothing, for now
	send               // this node sends the work
	seenOff            // another does
)

// place decides by the nodes of now.
func (pl *Placer) place(u use, grain graindir.ID, request func(*placement.View) placement.Request) (d placement.Decision, err error) {
	pl.viewed(func(v *placement.View) {
		r := request(v)
		if !r.Queue && (holdsMore(&r.Needs) || r.Kind == placement.Grain && r.Needs.CPU > 0) {
			v.Update(pl.self().Node, pl.expect) // what this node itself has is known
		} else {
			u = look
		}
		if d, err = placement.Place(v, r); err != nil || d.Node == pl.self().Node {
			return
		}
		if u == seenOff {
			pl.view.entered(core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, sentWork{r.Needs, pl.Wheel.Now() + int64(givenBackFor), grain})
		} else if u == send { // until it is sent
			v.Update(d.Node, func(n *placement.Node) { n.Take(r.Needs) })
		}
	})
	return d, err
}

// viewed calls f with the nodes of now.
func (pl *Placer) viewed(f func(*placement.View)) {
	v := &pl.view
	v.mu.Lock()
	defer v.mu.Unlock()
	pl.mu.Lock()
	members := pl.members
	pl.mu.Unlock()
	if v.view == nil || v.members != members {
		nodes, _ := pl.Nodes()
		v.view, v.members = placement.NewView(pl.self().Node, nodes), members
		v.view.Refresh = pl.expect
		for i := range nodes {
			v.view.Update(nodes[i].ID, pl.takeSent)
		}
	}
	f(v.view)
}

// holdsMore reports whether needs are more than one CPU: expect knows how many tasks have been sent.
func holdsMore(needs *raysys.Resources) bool {
	return needs.CPU > 1 || needs.GPU > 0 || needs.Memory > 0 || len(needs.Custom) > 0
}

// entered enters what a decision takes of its node. The caller holds mu.
func (v *nodeView) entered(k core.NodeKey, w sentWork) {
	if v.sent == nil {
		v.sent = map[core.NodeKey][]sentWork{}
	}
	v.sent[k] = append(v.sent[k], w)
	v.view.Update(k.Node, func(n *placement.Node) { n.Take(w.needs) })
}

// arrives notes until when a grain that this node saw off is on its way, on the node's clock.
func (v *nodeView) arrives(grain graindir.ID, until int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, list := range v.sent {
		for i := range list {
			if w := &list[i]; w.grain == grain {
				w.until = until
			}
		}
	}
}

// forget forgets what reports of a node count by now, and reports whether there was any. The caller holds mu.
func (v *nodeView) forget(k core.NodeKey, now int64) bool {
	all := v.sent[k]
	left := slices.DeleteFunc(all, func(w sentWork) bool { return w.until <= now })
	if len(left) == len(all) {
		return false
	}
	if v.sent[k] = left; len(left) == 0 {
		delete(v.sent, k)
	}
	return true
}

// takeSent takes from what is free on a node what was sent to it, or seen off, and no report counts. The caller holds view.mu.
func (pl *Placer) takeSent(n *placement.Node) {
	k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
	for _, w := range pl.view.sent[k] {
		n.Take(w.needs)
	}
	if p := pl.peer(k); p != nil {
		pl.tasks.EachUncounted(p, n.Take)
	}
}

// enterReport corrects what is known of an incarnation of a node. The caller holds view.mu.
func (pl *Placer) enterReport(k core.NodeKey, l *loadreport.Load) {
	if v := pl.view.view; v != nil && connected(v, k) {
		v.Update(k.Node, func(n *placement.Node) {
			EnterLoad(n, l, 0) // Refresh corrects it before nodes are compared
			pl.takeSent(n)
		})
	}
}

// forgetSent is forget for all nodes.
func (pl *Placer) forgetSent() {
	v := &pl.view
	v.mu.Lock()
	defer v.mu.Unlock()
	now := pl.Wheel.Now()
	for k := range v.sent {
		if v.forget(k, now) {
			pl.mu.Lock()
			l, known := pl.loads[k]
			pl.mu.Unlock()
			if known {
				pl.enterReport(k, &l)
			}
		}
	}
}

// MoveWaiting has work, and calls of stateless kinds, that wait here for resources go to a node that has them free. It is called when what is known of the nodes
// has changed, and at each tick. One look is under way at a time: what is called for meanwhile is one more.
func (pl *Placer) MoveWaiting() {
	line := pl.tasks.Line()
	if line.Still() && !pl.grains.CallsWait() || pl.Looks.Add(1) > 1 {
		return
	}
	pl.Pool.Go(goroutines.Func(func() {
		for again := true; again; {
			seen := pl.Looks.Load()
			line.Move()
			pl.grains.MoveCalls()
			again = !pl.Looks.CompareAndSwap(seen, 0)
		}
	}))
}

// Seen is what this node takes a node to be like.
func (pl *Placer) Seen(of raysys.NodeID) (seen placement.Node) {
	pl.viewed(func(v *placement.View) {
		seen = *v.Find(of)
		pl.expect(&seen)
	})
	return seen
}

// connected reports whether placement may choose an incarnation of a node.
func connected(v *placement.View, k core.NodeKey) bool {
	n := v.Find(k.Node)
	return n != nil && n.Incarnation == k.Incarnation
}
