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
		Kind: placement.Task, Function: r.Entry.String(), Needs: r.Options.Resources, Labels: r.Options.Labels, Strategy: r.Options.Strategy,
		Custom: c.cfg.Strategies, Seed: r.ID.Lo + uint64(r.Attempt),
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
	return nil, lostMeanwhile{k}
}

// lostMeanwhile: the node that was chosen is not connected any more; the next look chooses another.
type lostMeanwhile struct{ k nodeKey }

func (e lostMeanwhile) Error() string   { return "node " + e.k.String() + " was chosen and left" }
func (e lostMeanwhile) Temporary() bool { return true }
