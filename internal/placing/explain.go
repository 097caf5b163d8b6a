package placing

import (
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/placement"
)

// ExplainTask adds which conditions a task that waits has, and which nodes may take it.
func (pl *Placer) ExplainTask(w *taskengine.Waiting) {
	nodes := pl.Affinity.explain(w.Request.Options.Conditions, core.GrainName{}, &w.Waiting)
	w.Nodes = pl.fits(func(v *placement.View) placement.Request { return pl.taskRequest(w.Request, nodes, v, false) })
}

// ExplainGrain is the same for a call of a grain.
func (pl *Placer) ExplainGrain(w *grainengine.Waiting) {
	w.Want.Nodes = pl.Affinity.explain(w.Want.Conditions, core.GrainName(w.ID), &w.Waiting)
	w.Nodes = pl.fits(func(*placement.View) placement.Request { return pl.Locator().grainRequest(w.ID, w.Want) })
}

// fits says of each node whether it may take the work: of members that this node cannot reach, that.
func (pl *Placer) fits(request func(*placement.View) placement.Request) (list []raysys.NodeFit) {
	observers := map[raysys.NodeID]bool{}
	pl.viewed(func(v *placement.View) {
		list = v.Fits(request(v))
		for _, m := range pl.Member.View().Nodes() {
			k := core.NodeKey{Node: m.ID, Incarnation: m.Incarnation}
			if observers[m.ID] = m.Info.Observer; !connected(v, k) {
				list = append(list, raysys.NodeFit{Node: m.ID, Why: "not connected to " + string(pl.self().Node)})
			}
		}
	})
	return slices.DeleteFunc(list, func(f raysys.NodeFit) bool { return observers[f.Node] })
}
