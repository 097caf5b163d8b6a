package system

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Demand is work of one shape that waits for resources: tasks that ask for other than one CPU, and grains that hold something.
type Demand struct {
	Resources raysys.Resources  `json:"resources"` // what each asks for
	Labels    map[string]string `json:"labels,omitempty"`
	Count     int               `json:"count"`
	Oldest    time.Duration     `json:"oldest"`   // for how long the oldest has waited, in nanoseconds
	Unplaced  bool              `json:"unplaced"` // no node could take it yet; else it waits on a node until others give back what it needs
}

// DeviceStatus is one accelerator of a node.
type DeviceStatus struct {
	UUID   string  `json:"uuid"`
	Model  string  `json:"model,omitempty"`
	Memory int64   `json:"memory,omitempty"` // bytes; 0 where that is not known
	Total  float64 `json:"total"`            // what the node has of it: 1, or less for a share
	Free   float64 `json:"free"`             // of Total
	// FreeMemory is what work has not asked for: nothing measures it.
	FreeMemory int64 `json:"free_memory,omitempty"`
	Sick       bool  `json:"sick,omitempty"` // it gets no new work
}

// demand is the work that waits on this node.
func (n *Node) demand() (list []Demand) {
	now := n.wheel.Now()
	add := func(r core.Resources, labels map[string]string, count int, since int64, unplaced bool) {
		d := Demand{raysys.Resources(r), labels, count, max(time.Duration(now-since), 0), unplaced}
		list = append(list, d)
	}
	for _, d := range n.tasks.Line().Demand() {
		add(d.Need.Resources(), nil, d.Count, d.Oldest, false)
	}
	for _, d := range n.tasks.Unplaced() {
		add(d.Resources, d.Labels, d.Count, d.Oldest, true)
	}
	for _, g := range n.grains.Nodeless() {
		add(g.Resources, g.Labels, 1, g.Since, true)
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

func (d *Demand) shape() string { return fmt.Sprint(d.Resources, d.Labels) }

// devices is what the node's ledger has of its accelerators.
func (n *Node) devices() (list []DeviceStatus) {
	for _, d := range n.tasks.Line().Spares() {
		list = append(list, DeviceStatus{
			UUID: d.UUID, Model: d.Model, Memory: d.Memory, Total: float64(d.Total()) / 1000, Free: float64(d.Share) / 1000, FreeMemory: d.Bytes, Sick: d.Sick,
		})
	}
	return list
}
