package devices

import (
	"context"
	"slices"
)

// Unknown stands where a library does not say: for a NUMA node, and for a share of time.
const Unknown = -1

// Device is one accelerator that work may be given: a GPU, or a MIG instance of one.
type Device struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`            // as the library names it: "NVIDIA H100 80GB HBM3"
	Memory int64  `json:"memory,omitempty"` // bytes; 0 is unknown
	Index  int    `json:"index"`            // of the GPU on its host, in the order of the PCI bus
	GPU    string `json:"gpu,omitempty"`    // of a MIG instance: the UUID of its GPU
	PCI    string `json:"pci,omitempty"`    // address of the GPU: "0000:06:00.0"
	NUMA   int    `json:"numa"`             // node that the GPU is nearest to, or Unknown

	Used int64 `json:"used,omitempty"` // bytes of Memory in use, by all processes
	Busy int   `json:"busy"`           // percent of the last while in which it computed, or Unknown

	// Sick says why the device gets no new work. Empty: it is well.
	Sick string `json:"sick,omitempty"`
}

// MIG reports whether d is a MIG instance. A process sees at most one of those.
func (d Device) MIG() bool { return d.GPU != "" }

// Inventory is the devices of one host at one time. It is never changed: a later one is another.
type Inventory struct {
	Devices []Device `json:"devices"`
	// Links has a row and a column for each device: the number of NVLinks between two. A link through a switch counts
	// between all that are at the switch. MIG instances have none.
	Links [][]int `json:"links"`
}

// Equal reports whether both say the same.
func (i Inventory) Equal(o Inventory) bool {
	return slices.Equal(i.Devices, o.Devices) && slices.EqualFunc(i.Links, o.Links, slices.Equal[[]int])
}

// Source has the devices of a host and says when they change: a Watcher, or the Feed of one in another process.
type Source interface {
	// Inventory is the latest. Which devices there are never changes, nor their order.
	Inventory() Inventory
	// Run calls changed with each later inventory, one at a time, until ctx ends. One runs at a time; a node that
	// joins its cluster again runs it again.
	Run(ctx context.Context, changed func(Inventory)) error
}
