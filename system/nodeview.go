package system

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
	members uint64 // cluster.members when view was made
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
func (c *cluster) place(u use, grain graindir.ID, request func(*placement.View) placement.Request) (d placement.Decision, err error) {
	c.viewed(func(v *placement.View) {
		r := request(v)
		if !r.Queue && (holdsMore(&r.Needs) || r.Kind == placement.Grain && r.Needs.CPU > 0) {
			v.Update(c.self().Node, c.expect) // what this node itself has is known
		} else {
			u = look
		}
		if d, err = placement.Place(v, r); err != nil || d.Node == c.self().Node {
			return
		}
		if u == seenOff {
			c.view.entered(core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, sentWork{r.Needs, c.node.wheel.Now() + int64(givenBackFor), grain})
		} else if u == send { // until it is sent
			v.Update(d.Node, func(n *placement.Node) { n.Take(r.Needs) })
		}
	})
	return d, err
}

// viewed calls f with the nodes of now.
func (c *cluster) viewed(f func(*placement.View)) {
	v := &c.view
	v.mu.Lock()
	defer v.mu.Unlock()
	c.mu.Lock()
	members := c.members
	c.mu.Unlock()
	if v.view == nil || v.members != members {
		nodes, _ := c.nodes()
		v.view, v.members = placement.NewView(c.self().Node, nodes), members
		v.view.Refresh = c.expect
		for i := range nodes {
			v.view.Update(nodes[i].ID, c.takeSent)
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
func (c *cluster) takeSent(n *placement.Node) {
	k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
	for _, w := range c.view.sent[k] {
		n.Take(w.needs)
	}
	if p := c.peer(k); p != nil {
		c.node.tasks.EachUncounted(p, n.Take)
	}
}

// enterReport corrects what is known of an incarnation of a node. The caller holds view.mu.
func (c *cluster) enterReport(k core.NodeKey, l *loadreport.Load) {
	if v := c.view.view; v != nil && connected(v, k) {
		v.Update(k.Node, func(n *placement.Node) {
			enterLoad(n, l, 0) // Refresh corrects it before nodes are compared
			c.takeSent(n)
		})
	}
}

// forgetSent is forget for all nodes.
func (c *cluster) forgetSent() {
	v := &c.view
	v.mu.Lock()
	defer v.mu.Unlock()
	now := c.node.wheel.Now()
	for k := range v.sent {
		if v.forget(k, now) {
			c.mu.Lock()
			l, known := c.loads[k]
			c.mu.Unlock()
			if known {
				c.enterReport(k, &l)
			}
		}
	}
}

// moveWaiting has work, and calls of stateless kinds, that wait here for resources go to a node that has them free. It is called when what is known of the nodes
// has changed, and at each tick. One look is under way at a time: what is called for meanwhile is one more.
func (c *cluster) moveWaiting() {
	line := c.node.tasks.Line()
	if line.Still() && !c.node.grains.CallsWait() || c.looks.Add(1) > 1 {
		return
	}
	c.node.pool.Go(goroutines.Func(func() {
		for again := true; again; {
			seen := c.looks.Load()
			line.Move()
			c.node.grains.MoveCalls()
			again = !c.looks.CompareAndSwap(seen, 0)
		}
	}))
}

// connected reports whether placement may choose an incarnation of a node.
func connected(v *placement.View, k core.NodeKey) bool {
	n := v.Find(k.Node)
	return n != nil && n.Incarnation == k.Incarnation
}
