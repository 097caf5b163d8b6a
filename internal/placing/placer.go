package placing

import (
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/placement"
)

// Decisions remembers where work goes. A plain task is none of it: that goes to where a CPU is free.
type Decisions interface {
	Task(id core.TaskID, function string, to placement.Decision)
	// Bundled is Task for a task in a group; any says that it might have been in any bundle of it.
	Bundled(id core.TaskID, function string, in core.Bundle, at raysys.NodeID, any bool)
	Placed(id graindir.ID, to placement.Decision)
}

// Config is the node whose work a Placer places.
type Config struct {
	Namespace  string
	Table      *raysys.Table
	Strategies map[raysys.Strategy]placement.Strategy
	Mesh       *mesh.Mesh
	Refs       *refs.References
	Runner     *runner.Runner
	Wheel      *wheel.Wheel
	Pool       *goroutines.Pool
	Decisions  Decisions
	Suspended  func() error // why calls to named grains fail now; nil while the lease is good
}

// Placer chooses the nodes of a node's work in a cluster.
type Placer struct {
	Config
	Member   *member.Member     // from the join on
	Registry *registry.Registry // from the join on
	tasks    *taskengine.Engine // from Groups.Engines on, as is grains
	grains   *grainengine.Engine
	groups   *Groups // from NewGroups on
	view     nodeView
	Affinity affinity
	askers   roomAskers
	Homeless atomic.Int64  // stateless calls that wait for a worker
	Looks    atomic.Int32  // calls of MoveWaiting since its last look; 0: none is under way
	draws    atomic.Uint64 // random choices made here
	tell     chan struct{} // capacity 1: wakes TellLoad
	rest     chan struct{} // capacity 1: the same, soon
	short    chan struct{} // capacity 1: has TellLoad look after what waits for resources

	mu      sync.Mutex // guards the rest
	loads   map[core.NodeKey]loadreport.Load
	reports reports
	members uint64 // grows with every change that placement depends on, but for loads
}

// New makes the placer of a node. NewGroups makes it whole, and Groups.Engines gives it the engines.
func New(c Config) *Placer {
	pl := &Placer{
		Config: c, tell: make(chan struct{}, 1), rest: make(chan struct{}, 1), short: make(chan struct{}, 1), loads: map[core.NodeKey]loadreport.Load{},
	}
	pl.Affinity.pl = pl
	return pl
}

// self names this node and its incarnation.
func (pl *Placer) self() core.NodeKey { return pl.Mesh.Self() }

// peer returns the connection to an incarnation, nil when there is none now.
func (pl *Placer) peer(k core.NodeKey) *refs.Session { return refs.To(pl.Mesh, k) }

// Changed notes that placement may choose another node from now on.
func (pl *Placer) Changed() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.members++
}

// Gone forgets an incarnation that has left the cluster.
func (pl *Placer) Gone(k core.NodeKey) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	delete(pl.loads, k)
	pl.reports.remove(k)
	pl.groups.room.forget(k)
}

// Moment says how new what is known of the nodes is.
func (pl *Placer) Moment() registry.Moment {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return registry.Moment{Members: pl.members, Reports: pl.reports.last}
}
