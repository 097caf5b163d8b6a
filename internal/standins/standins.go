package standins

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// Parts are those of a node in a cluster. What is nil is real.
type Parts struct {
	Network link.Transport // in place of TCP
	Clock   member.Clock   // measures the lease
	Files   objectstore.FS // of system.ObjectConfig.Spill
	// Unproven has the node speak as a program from before the cluster had a secret.
	Unproven bool
	// Chaos decides about each frame that leaves.
	Chaos func(to raysys.NodeID, class wire.Class, kind wire.Kind) link.Action
}

// Package system sets them.
var (
	// Of returns the parts that a *system.ClusterConfig has, to be changed.
	Of func(cluster any) *Parts
	// Inspector returns where a *system.Config has what sees every value that changes hands.
	Inspector func(cfg any) *core.Inspector
	// Fakes returns where a *system.Config has what stands in for functions.
	Fakes func(cfg any) *map[*core.Entry]detour.Fake
	// MemoryUsed returns where a *system.Config has what says how much of its MemoryLimit is used, in bytes.
	MemoryUsed func(cfg any) *func() int64
)
