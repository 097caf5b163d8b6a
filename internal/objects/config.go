package objects

import (
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// Config says what Open makes Objects of.
type Config struct {
	Node      raysys.NodeID
	Namespace string
	Job       *core.Job
	Clock     refs.Clock
	Log       *zap.Logger
	// Store says what the node's object store may use, and which node it is of. Spill files that an earlier process of
	// that node left in Dir are removed.
	Store objectstore.Config
	// Fetched is called with each object that came from another node.
	Fetched func(size int64, took time.Duration)
	// Records returns the records of States. In a process without a cluster they are opened when first asked for.
	Records func() (*registry.Registry, error)
	// Files is what raysys.OnDisk needs.
	Files Files
	// Cluster is nil without one.
	Cluster *Cluster
}

// Cluster is what objects need of the other nodes.
type Cluster struct {
	Mesh      *mesh.Mesh
	Refs      *refs.References
	Runner    *runner.Runner
	Directory *registry.Directory
	View      func() *member.View
	// Unused calls then when nothing will ask for a name that the node of a dead owner has drawn. Of names that a program gave it says nothing.
	Unused func(name string, then func())
	// Host names the host to other processes there, which may map this node's objects; empty: none may.
	Host string
}
