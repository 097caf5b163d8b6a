package placing

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// SetGrainLoad says what the grains of this node do, from the next report of its load on: how long their turns take in
// a second, and how many stand.
func SetGrainLoad(pl *Placer, turns time.Duration, stands int) {
	pl.mu.Lock()
	pl.grainTime, pl.grainStands, pl.balances = turns, stands, true
	pl.mu.Unlock()
}

// reportTo is what this node tells peers of its load.
func reportTo(pl *Placer, of []wire.Peer) (l loadreport.Load, rooms string, received []loadreport.Received, news bool) {
	l, rooms, received, news = pl.tasks.Report(of)
	pl.mu.Lock()
	defer pl.mu.Unlock()
	l.Balances, l.GrainTime, l.GrainStands = pl.balances, pl.grainTime, pl.grainStands
	return l, rooms, received, news
}

// Sharer is a worker that takes part in the balance of grains, as it reported last.
type Sharer struct {
	core.NodeKey
	CPUs   float64
	Load   time.Duration // how long the turns of its grains take in a second
	Stands int
	Takes  bool // it has room in its memory
}

// Sharers lists the workers of this node's program that take part, in the order of their names.
func Sharers(pl *Placer) (list []Sharer) {
	nodes, _ := pl.Nodes()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for i := range nodes {
		n := &nodes[i]
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		if l := pl.loads[k]; n.Worker && n.Namespace == pl.Namespace && l.Balances {
			list = append(list, Sharer{k, n.Total.CPU, l.GrainTime, l.GrainStands, l.Memory == loadreport.Roomy})
		}
	}
	return list
}

// MayHave returns the nodes that may have a grain by what it wants.
func MayHave(pl *Placer, id graindir.ID, want graindir.Wanted) map[raysys.NodeID]bool {
	may := map[raysys.NodeID]bool{}
	for _, f := range pl.fits(func(*placement.View) placement.Request { return pl.Locator().grainRequest(id, want) }) {
		may[f.Node] = !f.Never
	}
	return may
}
