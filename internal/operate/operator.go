package operate

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/placement/devices"
)

// Config is the node that an Operator answers for, as far as it is there before the node starts.
type Config struct {
	Name      raysys.NodeID
	Namespace string
	Version   string // of raysys
	Resources raysys.Resources
	Devices   devices.Source // nil where there is none
	Job       *core.Job
	Tasks     *taskengine.Engine
	Grains    *grainengine.Engine
	Groups    *groupengine.Client
	Decisions *Decisions
	Now       func() int64
	Node      Node
	Lines     *worklog.Lines
	Runner    *runner.Runner // that of the cluster, or of the node without one
	Log       *zap.Logger
	Listed    any // what functions of package listed are given: the *system.Node
}

// Node is what an operator asks of the node.
type Node interface {
	Cluster() *Cluster // nil without one
	Started() time.Time
	Objects() *objects.Objects // nil before Start
	LedGroups() []registry.LedGroup
	Registry() (*registry.Registry, error)
	AskDrain() bool // false where its program does not drain on request
	CancelDrain() error
	AwaitDrain(tell func(inspect.Drained)) error
	Holding() []string // of a node that drains: what keeps it
	WhyNoHost() string // "" of a host

	// ExplainBundle adds why work waits in its placement group, ExplainTask and ExplainGrain which nodes may take it.
	ExplainBundle(*core.Options, *raysys.Waiting)
	ExplainTask(*taskengine.Waiting)
	ExplainGrain(*grainengine.Waiting)
}

// Cluster is the node's part in its cluster. What a node makes when it joins is nil before.
type Cluster struct {
	Name     string
	Started  time.Time // when the node joined
	Log      *zap.Logger
	Runner   *runner.Runner
	Mesh     *mesh.Mesh
	Refs     *refs.References
	Network  link.Transport
	Member   *member.Member
	Registry *registry.Registry
	Lineage  *lineage.Lineage // nil where that is not durable
	Store    *node.StoreTimes
}

// Operator answers what operators ask of a node, and asks other nodes for one.
type Operator struct {
	Config
	trying    atomic.Bool  // see ways
	watch     atomic.Int32 // see watchDrivers
	Hearing   Hearing
	recording recording
	reports   sync.Map // by core.NodeKey: a <-chan *inspect.Drained that DrainNode asked for and AwaitDrained takes
}

// own is what the node of an Operator says of itself.
type own struct{ *Operator }

// New makes the operator of a node.
func New(c Config) *Operator {
	o := &Operator{Config: c}
	o.Hearing.o = o
	return o
}

func (o *Operator) clusterName() string {
	if c := o.Node.Cluster(); c != nil {
		return c.Name
	}
	return ""
}

// RoleOf is what a node does in its cluster: worker, driver or both.
func RoleOf(i member.Info) string {
	switch {
	case i.Role != member.Driver:
		return "worker"
	case i.Serves:
		return "both"
	}
	return "driver"
}
