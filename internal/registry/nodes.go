package registry

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// leaderNodes is the nodes as the decisions of a leader see them. The view is kept while the members and their connections stay:
// it is corrected for the nodes that have reported since the decision before.
type leaderNodes struct {
	view *placement.View
	at   Moment
	took map[core.NodeKey]int64 // nodes that decisions took resources of since their last report, and when that is forgotten
}

// takenFor is how long a decision counts at most, on the clock of the Runner. A node that got the work reports it by then. One that
// did not, because the commit or the node refused it, may have nothing to report.
const takenFor = 300 * time.Millisecond

// taken notes that the view has needs taken from a node.
func (n *leaderNodes) taken(k core.NodeKey, needs raysys.Resources, now int64) {
	if needs.CPU == 0 && needs.GPU == 0 && needs.Memory == 0 && len(needs.Custom) == 0 {
		return
	}
	if n.took == nil {
		n.took = map[core.NodeKey]int64{}
	}
	n.took[k] = now + int64(takenFor)
}

// view returns the nodes as they are now, less what this leader has given of them since they reported.
func (l *leader) view() *placement.View {
	n, members := &l.nodes, l.reg.cfg.Members
	now := members.Since(n.at, n.reported(members))
	if len(n.took) > 0 {
		at := l.reg.cfg.Runner.Now()
		for k, until := range n.took {
			if until <= at {
				n.reported(members)(k)
			}
		}
	}
	if n.view != nil && now.Members == n.at.Members {
		n.at = now
		return n.view
	}
	nodes, at := members.Nodes()
	for i := range nodes {
		own := &nodes[i]
		k := core.NodeKey{Node: own.ID, Incarnation: own.Incarnation}
		l.enterCount(own)
		if _, took := n.took[k]; !took {
			continue
		}
		if old := n.view.Find(own.ID); old != nil && old.Incarnation == own.Incarnation {
			own.Free, own.Devices = old.Free, old.Devices
		}
	}
	n.view = placement.NewView(members.Self().Node, nodes)
	n.at = Moment{at.Members, now.Reports} // a report between the two is entered again
	return n.view
}

// reported returns what enters the last report of a node.
func (n *leaderNodes) reported(members Members) func(core.NodeKey) {
	return func(k core.NodeKey) {
		delete(n.took, k)
		if n.view == nil {
			return
		}
		if own := n.view.Find(k.Node); own != nil && own.Incarnation == k.Incarnation {
			n.view.Update(k.Node, members.Reported)
		}
	}
}

// enterCount enters how many grains this shard has placed on a node.
func (l *leader) enterCount(n *placement.Node) {
	n.Grains = l.counts[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}]
}
