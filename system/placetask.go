package system

import (
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/tasks"
)

// placeTask chooses the node for a task that not every node can take. A nil peer stands for this node.
func (c *cluster) placeTask(r tasks.PlaceRequest) (wire.Peer, error) {
	nodes, _ := c.nodes()
	view := placement.NewView(c.self().node, nodes)
	d, err := placement.Place(view, placement.Request{
		Kind: placement.Task, Function: "task " + r.Function, Needs: r.Needs, Labels: r.Labels, Strategy: r.Strategy, Custom: c.cfg.Strategies,
		Seed: r.Seed, Avoid: r.Avoid,
	})
	if err != nil {
		return nil, err
	}
	k := nodeKey{d.Node, d.Incarnation}
	if k == c.self() {
		return nil, nil
	}
	if p := c.peer(k); p != nil {
		return p, nil
	}
	return nil, &placement.NoNodeError{}
}
