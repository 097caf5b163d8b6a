package nodedevices

import (
	"errors"
	"fmt"
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/placement/devices"
)

// Complete returns the devices of a node, and makes r.GPU their number. Where only the number is given, they are known by the names in
// visible, which is CUDA_VISIBLE_DEVICES, and without it by their index.
func Complete(r *raysys.Resources, given []raysys.Device, visible string) (list []raysys.Device, err error) {
	if len(given) == 0 {
		if r.GPU == 0 && (r.GPUMemory != 0 || r.GPUModel != "") {
			return nil, fmt.Errorf("Config.Resources has %v, and no GPU: say how many there are", raysys.Resources{GPUMemory: r.GPUMemory, GPUModel: r.GPUModel})
		}
		if r.GPU > member.MaxDevices {
			return nil, fmt.Errorf("Config.Resources.GPU is %v: give 0 to %d", r.GPU, member.MaxDevices)
		}
		if r.Validate() != nil {
			return nil, nil // which has been said
		}
		unnamed, names := ledger.Unnamed(ledger.Thousandths(r.GPU)), devices.VisibleNames(visible)
		if visible != "" && len(names) < len(unnamed) {
			return nil, fmt.Errorf("Config.Resources.GPU is %v, and %s=%q names %d: offer no more than it names, or unset it",
				r.GPU, devices.VisibleVariable, visible, len(names))
		}
		for i, d := range unnamed {
			if visible != "" {
				d.UUID = names[i]
			}
			own := raysys.Device{UUID: d.UUID, Model: r.GPUModel, Memory: r.GPUMemory}
			if d.Share < ledger.Unit {
				own.Share = float64(d.Share) / ledger.Unit
			}
			list = append(list, own)
		}
		return list, nil
	}
	var errs []error
	sum, seen := int64(0), map[string]bool{}
	for i, d := range given {
		if d.UUID == "" || seen[d.UUID] {
			errs = append(errs, fmt.Errorf("Config.Devices[%d] has UUID %q: each device needs one of its own", i, d.UUID))
		}
		seen[d.UUID] = true
		if d.Memory < 0 || !(d.Share == 0 || d.Share >= 0.001 && d.Share <= 1) {
			errs = append(errs, fmt.Errorf("Config.Devices[%d] has %d bytes and a share of %v: give 0 or more bytes, and 0 (all) or 0.001 to 1", i, d.Memory, d.Share))
		}
		sum += Share(d)
	}
	if len(given) > member.MaxDevices {
		errs = append(errs, fmt.Errorf("Config.Devices has %d devices: give at most %d", len(given), member.MaxDevices))
	}
	if n := float64(sum) / ledger.Unit; r.GPU == 0 {
		r.GPU = n
	} else if math.Abs(r.GPU-n) > 0.0005 {
		errs = append(errs, fmt.Errorf("Config.Resources.GPU is %v, and Config.Devices has %v: leave GPU out", r.GPU, n))
	}
	return given, errors.Join(errs...)
}

// Share is what the node has of d, in thousandths.
func Share(d raysys.Device) int64 {
	if d.Share == 0 {
		return ledger.Unit
	}
	return ledger.Thousandths(d.Share)
}

// Ledger returns the devices as the node's ledger has them.
func Ledger(given []raysys.Device) (list []ledger.Device) {
	for _, d := range given {
		list = append(list, ledger.Device{UUID: d.UUID, Model: d.Model, Memory: d.Memory, Share: Share(d)})
	}
	return list
}

// BestConnected chooses devices by their links, where source knows those.
func BestConnected(source devices.Source) ledger.Choose {
	if source == nil {
		return nil
	}
	return func(free []int, n int) []int { return devices.Best(source.Inventory().Links, free, n) }
}

// Placement returns the devices of a node's record for its view, all of them free.
func Placement(list []raysys.Device) (all []placement.Device) {
	for _, d := range list {
		all = append(all, placement.Device{Device: d, FreeShare: float64(Share(d)) / ledger.Unit, FreeMemory: d.Memory})
	}
	return all
}
