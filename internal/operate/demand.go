package operate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement/devices"
)

// ownDemand is the work that waits on this node.
func ownDemand(o *Operator) (list []inspect.Demand) {
	now := o.Now()
	add := func(r core.Resources, labels map[string]string, group string, count int, since int64, unplaced bool) {
		if group != "" {
			group = groupengine.NameOf(group)
		}
		list = append(list, inspect.Demand{
			Resources: raysys.Resources(r), Labels: labels, Group: group, Count: count, Oldest: max(time.Duration(now-since), 0), Unplaced: unplaced,
		})
	}
	for _, d := range o.Tasks.Line().Demand() {
		add(d.Need.Resources(), nil, d.Group, d.Count, d.Oldest, false)
	}
	for _, d := range o.Tasks.Unplaced() {
		add(d.Resources, d.Labels, d.Group, d.Count, d.Oldest, true)
	}
	for _, g := range o.Grains.Nodeless() {
		add(g.Resources, g.Labels, g.Group, 1, g.Since, true)
	}
	return summed(list)
}

// summed has one entry for each shape, the longest wait first.
func summed(all []inspect.Demand) (list []inspect.Demand) {
	at := map[string]int{}
	for _, d := range all {
		shape := shape(d) + fmt.Sprint(d.Unplaced)
		i, ok := at[shape]
		if !ok {
			at[shape] = len(list)
			list = append(list, d)
			continue
		}
		list[i].Count += d.Count
		list[i].Oldest = max(list[i].Oldest, d.Oldest)
	}
	slices.SortFunc(list, func(a, b inspect.Demand) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(shape(a), shape(b)))
	})
	return list
}

func shape(d inspect.Demand) string {
	return fmt.Sprint(d.Resources, d.Resources.GPUMemory, d.Resources.Memory, d.Labels, d.Group)
}

// ownGroupDemand is the placement groups that wait for room, of the shards that this node leads.
func ownGroupDemand(o *Operator) (list []inspect.GroupDemand) {
	now := o.Now()
	for _, g := range o.Node.LedGroups() {
		if !g.Waits {
			continue
		}
		d := inspect.GroupDemand{Group: groupengine.NameOf(g.Key), Strategy: g.Record.Strategy, Count: 1, Oldest: max(time.Duration(now-g.Since), 0)}
		if g.Gathers {
			d.Gathering = 1
		}
		for _, b := range g.Record.Bundles {
			if b.Held {
				d.Bundles = slices.Insert(d.Bundles, d.Held, raysys.Resources(b.Needs))
				d.Held++
			} else {
				d.Bundles = append(d.Bundles, b.Needs)
			}
		}
		list = append(list, d)
	}
	return summedGroups(list)
}

// summedGroups has one entry for each shape, the longest wait first.
func summedGroups(all []inspect.GroupDemand) (list []inspect.GroupDemand) {
	slices.SortFunc(all, func(a, b inspect.GroupDemand) int {
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

// ownDevices is what the node's ledger has of its accelerators, and what their source says of them.
func ownDevices(o *Operator) (list []inspect.DeviceStatus) {
	said := map[string]devices.Device{}
	if source := o.Devices; source != nil {
		for _, d := range source.Inventory().Devices {
			said[d.UUID] = d
		}
	}
	for _, d := range o.Tasks.Line().Spares() {
		s := inspect.DeviceStatus{
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
