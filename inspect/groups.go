package inspect

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// Groups is the placement groups of a cluster at one moment.
type Groups struct {
	Cluster string        `json:"cluster"`
	Count   int           `json:"count"`            // of groups, also those that were left out
	Groups  []GroupStatus `json:"groups"`           // the oldest first
	Silent  []string      `json:"silent,omitempty"` // nodes that do not answer, and why: the groups of the shards that they lead are missing
}

// GroupStatus is one placement group.
type GroupStatus struct {
	ID        string                  `json:"id"`
	Name      string                  `json:"name,omitempty"`
	Namespace string                  `json:"namespace,omitempty"` // of the program
	Strategy  placement.GroupStrategy `json:"strategy"`
	State     string                  `json:"state"`           // GroupWaiting and so on
	Owner     raysys.NodeID           `json:"owner,omitempty"` // the group goes with this node; "" for a detached one
	Detached  bool                    `json:"detached"`
	Made      time.Time               `json:"made,omitzero"` // by the clock of its maker
	Bundles   []BundleStatus          `json:"bundles"`
}

// The states of a placement group.
const (
	GroupWaiting   = "waiting"   // a bundle of it has no node
	GroupGathering = "gathering" // the same, and nodes keep for it what becomes free
	GroupHeld      = "held"      // each bundle has its node
	GroupGoing     = "going"     // it is being removed: what runs in it has not returned
	GroupNever     = "never"     // it has ended: no nodes could hold it, however idle
)

// BundleStatus is one bundle of a placement group.
type BundleStatus struct {
	Resources raysys.Resources `json:"resources"`
	Node      raysys.NodeID    `json:"node,omitempty"` // "" while it has none
}
