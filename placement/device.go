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
