package ledger

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/raysys/raysys/internal/core"
)

// Device is one accelerator of a node.
type Device struct {
	UUID   string
	Model  string
	Memory int64 // bytes; 0 where that is not known
	Share  int64 // thousandths of it that the node was given; 0 is all of it
}

// Unnamed returns devices of which no more is known than their number, in thousandths; a rest is a share of one.
func Unnamed(n int64) (list []Device) {
	for ; n > 0; n -= Unit {
		list = append(list, Device{UUID: strconv.Itoa(len(list)), Share: min(n, Unit)})
	}
	return list
}

// device is a Device with what is free of it.
type device struct {
	Device
	total  int64 // thousandths; below 1000 for a share of a device that the node was given
	free   int64
	memory int64 // free bytes
	sick   bool
}

// could reports whether the device, when nothing holds it, has one device's part of n.
func (d *device) could(n *Need) bool {
	return core.OfModel(d.Model, n.GPUModel) && n.GPUMemory <= d.Memory && min(n.GPU, Unit) <= d.total
}

// can reports whether it has that now.
func (d *device) can(n *Need) bool {
	return !d.sick && d.could(n) && min(n.GPU, Unit) <= d.free && n.GPUMemory <= d.memory
}

// Part is a bundle that is to be carved out of a node.
type Part struct {
	Name core.Bundle
	Need Need
}

// inOrder returns the numbers of the parts, those first that fewer devices do for, of these the larger.
func inOrder(parts []Part) []int {
	list := make([]int, len(parts))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(i, j int) int {
		x, y := &parts[i].Need, &parts[j].Need
		return cmp.Or(-cmp.Compare(len(x.GPUModel), len(y.GPUModel)), cmp.Compare(x.GPUModel, y.GPUModel), // the more words, the fewer devices
			-cmp.Compare(x.GPUMemory, y.GPUMemory), -cmp.Compare(x.GPU, y.GPU))
	})
	return list
}

// partOf is what a bundle that asks for n has of the device: all of its memory, unless it shares the device or asks for some.
func (d Device) partOf(n *Need) Device {
	d.Share = min(n.GPU, Unit)
	if n.GPU < Unit || n.GPUMemory != 0 {
		d.Memory = n.GPUMemory
	}
	return d
}

// Do reports whether a bundle that asks for as much as bundle, and has these devices, has those that n asks for when all of them are free.
func Do(devices []Device, bundle, n Need) bool {
	could := 0
	for _, d := range devices {
		if d = d.partOf(&bundle); (&device{Device: d, total: d.Share}).could(&n) {
			could++
		}
	}
	return could >= n.count()
}
