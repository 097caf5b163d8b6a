package system

import (
	"sync"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// nodeView is the nodes as the decisions of this node see them. It is kept while the members and their connections stay, and
// the loads are read when a decision compares nodes.
type nodeView struct {
	mu      sync.Mutex
	view    *placement.View
	members uint64 // cluster.members when view was made
}

// place decides by the nodes of now.
func (c *cluster) place(request func(*placement.View) placement.Request) (d placement.Decision, err error) {
	c.viewed(func(v *placement.View) { d, err = placement.Place(v, request(v)) })
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
	}
	f(v.view)
}

// update corrects what is known of an incarnation of a node.
func (v *nodeView) update(k core.NodeKey, change func(*placement.Node)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.view != nil && connected(v.view, k) {
		v.view.Update(k.Node, change)
	}
}

// connected reports whether placement may choose an incarnation of a node.
func connected(v *placement.View, k core.NodeKey) bool {
	n := v.Find(k.Node)
	return n != nil && n.Incarnation == k.Incarnation
}
