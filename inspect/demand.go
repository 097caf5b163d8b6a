package inspect

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// Demand is work of one shape that waits for resources: tasks that ask for other than one CPU, grains that hold something, and what
// waits in the bundles of a placement group.
type Demand struct {
	Resources raysys.Resources  `json:"resources"` // what each asks for
	Labels    map[string]string `json:"labels,omitempty"`
	Group     string            `json:"group,omitempty"` // the placement group that it is in: its name, or its id
	Count     int               `json:"count"`
	Oldest    time.Duration     `json:"oldest"`   // for how long the oldest has waited, in nanoseconds
	Unplaced  bool              `json:"unplaced"` // no node could take it yet; else it waits on a node until others give back what it needs
}

// GroupDemand is placement groups of one shape that wait for room: some of their bundles have no node.
type GroupDemand struct {
	Group    string                  `json:"group"` // that which has waited longest: its name, or its id
	Strategy placement.GroupStrategy `json:"strategy"`
	Bundles  []raysys.Resources      `json:"bundles"` // those that have a node first
	Held     int                     `json:"held"`    // of the bundles of each, those that have a node
	Count    int                     `json:"count"`
	Oldest   time.Duration           `json:"oldest"` // for how long the first has waited, in nanoseconds; counted anew when its shard gets another leader
	// Gathering is how many of Count have nodes gather their room: what becomes free there is kept for them.
	Gathering int `json:"gathering,omitempty"`
}

// DeviceStatus is one accelerator of a node.
type DeviceStatus struct {
	UUID   string  `json:"uuid"`
	Model  string  `json:"model,omitempty"`
	Memory int64   `json:"memory,omitempty"` // bytes; 0 where that is not known
	Total  float64 `json:"total"`            // what the node has of it: 1, or less for a share
	Free   float64 `json:"free"`             // of Total
	// FreeMemory is what work has not asked for: UsedMemory is measured.
	FreeMemory int64  `json:"free_memory,omitempty"`
	Sick       bool   `json:"sick,omitempty"`  // it gets no new work
	Cause      string `json:"cause,omitempty"` // of that
	// What the source of the devices last said, of the work of all processes.
	UsedMemory int64 `json:"used_memory,omitempty"` // bytes; 0 where that is not known
	Busy       int   `json:"busy"`                  // percent of the last while in which it computed, or devices.Unknown
}
