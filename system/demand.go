package system

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/placement/devices"
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
	Bundles  []raysys.Resources      `json:"bundles"`
	Held     int                     `json:"held"` // of the bundles of each, those that have a node
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

// demand is the work that waits on this node.
func (n *Node) demand() (list []Demand) {
	now := n.wheel.Now()
	add := func(r core.Resources, labels map[string]string, group string, count int, since int64, unplaced bool) {
		if group != "" {
			group = groupengine.NameOf(group)
		}
		list = append(list, Demand{raysys.Resources(r), labels, group, count, max(time.Duration(now-since), 0), unplaced})
	}
	for _, d := range n.tasks.Line().Demand() {
		add(d.Need.Resources(), nil, d.Group, d.Count, d.Oldest, false)
	}
	for _, d := range n.tasks.Unplaced() {
		add(d.Resources, d.Labels, d.Group, d.Count, d.Oldest, true)
	}
	for _, g := range n.grains.Nodeless() {
		add(g.Resources, g.Labels, g.Group, 1, g.Since, true)
	}
	return summed(list)
}

// summed has one entry for each shape, the longest wait first.
func summed(all []Demand) (list []Demand) {
	at := map[string]int{}
	for _, d := range all {
		shape := d.shape() + fmt.Sprint(d.Unplaced)
		i, ok := at[shape]
		if !ok {
			at[shape] = len(list)
			list = append(list, d)
			continue
		}
		list[i].Count += d.Count
		list[i].Oldest = max(list[i].Oldest, d.Oldest)
	}
	slices.SortFunc(list, func(a, b Demand) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.shape(), b.shape()))
	})
	return list
}

func (d *Demand) shape() string {
	return fmt.Sprint(d.Resources, d.Resources.GPUMemory, d.Resources.Memory, d.Labels, d.Group)
}

// groupDemand is the placement groups that wait for room, of the shards that this node leads.
func (n *Node) groupDemand() (list []GroupDemand) {
	now := n.wheel.Now()
	for _, g := range n.allGroups() {
		if !g.Waits {
			continue
		}
		d := GroupDemand{Group: groupengine.NameOf(g.Key), Strategy: g.Record.Strategy, Count: 1, Oldest: max(time.Duration(now-g.Since), 0)}
		if g.Gathers {
			d.Gathering = 1
		}
		for _, b := range g.Record.Bundles {
			d.Bundles = append(d.Bundles, b.Needs)
			if b.Held {
				d.Held++
			}
		}
		list = append(list, d)
	}
	return summedGroups(list)
}

// summedGroups has one entry for each shape, the longest wait first.
func summedGroups(all []GroupDemand) (list []GroupDemand) {
	slices.SortFunc(all, func(a, b GroupDemand) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.Group, b.Group))
	})
	at := map[string]int{}
	for _, d := range all {
		shape := fmt.Sprintf("%s %#v %d", d.Strategy, d.Bundles, d.Held)
		if i, ok := at[shape]; ok {
			list[i].Count += d.Count
			list[i].Gathering += d.Gathering
			continue
		}
		at[shape] = len(list)
		list = append(list, d)
	}
	return list
}

// devices is what the node's ledger has of its accelerators, and what their source says of them.
func (n *Node) devices() (list []DeviceStatus) {
	said := map[string]devices.Device{}
	if source := n.cfg.DeviceSource; source != nil {
		for _, d := range source.Inventory().Devices {
			said[d.UUID] = d
		}
	}
	for _, d := range n.tasks.Line().Spares() {
		s := DeviceStatus{
			UUID: d.UUID, Model: d.Model, Memory: d.Memory, Total: float64(d.Total()) / 1000, Free: float64(d.Share) / 1000, FreeMemory: d.Bytes, Sick: d.Sick,
			Busy: devices.Unknown,
		}
		if of, ok := said[d.UUID]; ok {
			s.UsedMemory, s.Busy = of.Used, of.Busy
			if s.Sick {
				s.Cause = of.Sick
			}
		}
		list = append(list, s)
	}
	return list
}
