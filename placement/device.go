package placement

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Device is one accelerator of a node with what is free of it.
type Device struct {
	raysys.Device
	FreeShare  float64
	FreeMemory int64
	Sick       bool // it takes no new work
}

// slack: a sum of fractions taken and given back may miss a whole number by some bits; the finest share is 1/1000.
const slack = 1e-6

// total is the share of it that the node has.
func (d *Device) total() float64 {
	if d.Share == 0 {
		return 1
	}
	return d.Share
}

// when is the state of devices that a question is about.
type when uint8

const (
	idle when = iota // once nothing holds them, and all are well
	well             // once nothing holds them
	free             // now
)

// has reports whether the device has one device's part of needs.
func (d *Device) has(needs *raysys.Resources, w when) bool {
	share, memory := d.total(), d.Memory
	if w == free {
		share, memory = min(share, d.FreeShare), min(memory, d.FreeMemory)
	}
	return core.OfModel(d.Model, needs.GPUModel) && needs.GPUMemory <= memory && min(needs.GPU, 1) <= share+slack && !(w != idle && d.Sick)
}

// hasDevices reports whether the node has the devices of needs: a share of one device, or whole ones. Of a node that does not
// list its devices only their number is known.
func (n *Node) hasDevices(needs *raysys.Resources, w when) bool {
	if needs.GPU <= 0 {
		return true
	}
	if n.Devices == nil {
		have := n.Total.GPU
		if w == free {
			have = n.Free.GPU
		}
		return needs.GPU <= have+slack && needs.GPUModel == "" && needs.GPUMemory == 0
	}
	left := max(needs.GPU, 1)
	for i := range n.Devices {
		if n.Devices[i].has(needs, w) {
			if left--; left < slack {
				return true
			}
		}
	}
	return false
}

// enterDevices adds sign times needs to what is free of the devices: a share is taken where the least is left, and given back
// where the least is.
func (n *Node) enterDevices(needs *raysys.Resources, sign float64) {
	if needs.GPU <= 0 {
		return
	}
	for left := max(needs.GPU, 1); left >= slack; left-- {
		var best *Device
		for i := range n.Devices {
			d := &n.Devices[i]
			fits := d.has(needs, free)
			if sign > 0 {
				fits = d.has(needs, idle) && d.FreeShare+min(needs.GPU, 1) <= d.total()+slack
			}
			if fits && (best == nil || d.FreeShare < best.FreeShare) {
				best = d
			}
		}
		if best == nil {
			return // what was placed there did not fit, as far as is known
		}
		best.FreeShare += sign * min(needs.GPU, 1)
		best.FreeMemory += int64(sign) * needs.GPUMemory
	}
}
