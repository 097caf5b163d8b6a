package system

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/placement/devices"
)

// completeDevices makes Devices and Resources.GPU agree: where only the number is given, the devices are known by the names in
// CUDA_VISIBLE_DEVICES, and without it by their index.
func (cfg *Config) completeDevices() error {
	r := &cfg.Resources
	if len(cfg.Devices) == 0 {
		if r.GPU == 0 && (r.GPUMemory != 0 || r.GPUModel != "") {
			return fmt.Errorf("Config.Resources has %v, and no GPU: say how many there are", raysys.Resources{GPUMemory: r.GPUMemory, GPUModel: r.GPUModel})
		}
		if r.GPU > member.MaxDevices {
			return fmt.Errorf("Config.Resources.GPU is %v: give 0 to %d", r.GPU, member.MaxDevices)
		}
		if r.Validate() != nil {
			return nil // which has been said
		}
		list, names := ledger.Unnamed(ledger.Thousandths(r.GPU)), devices.VisibleNames(cfg.visible)
		if cfg.visible != "" && len(names) < len(list) {
			return fmt.Errorf("Config.Resources.GPU is %v, and %s=%q names %d: offer no more than it names, or unset it",
				r.GPU, devices.VisibleVariable, cfg.visible, len(names))
		}
		for i, d := range list {
			if cfg.visible != "" {
				d.UUID = names[i]
			}
			own := raysys.Device{UUID: d.UUID, Model: r.GPUModel, Memory: r.GPUMemory}
			if d.Share < ledger.Unit {
				own.Share = float64(d.Share) / ledger.Unit
			}
			cfg.Devices = append(cfg.Devices, own)
		}
		return nil
	}
	var errs []error
	sum, seen := int64(0), map[string]bool{}
	for i, d := range cfg.Devices {
		if d.UUID == "" || seen[d.UUID] {
			errs = append(errs, fmt.Errorf("Config.Devices[%d] has UUID %q: each device needs one of its own", i, d.UUID))
		}
		seen[d.UUID] = true
		if d.Memory < 0 || !(d.Share == 0 || d.Share >= 0.001 && d.Share <= 1) {
			errs = append(errs, fmt.Errorf("Config.Devices[%d] has %d bytes and a share of %v: give 0 or more bytes, and 0 (all) or 0.001 to 1", i, d.Memory, d.Share))
		}
		sum += share(d)
	}
	if len(cfg.Devices) > member.MaxDevices {
		errs = append(errs, fmt.Errorf("Config.Devices has %d devices: give at most %d", len(cfg.Devices), member.MaxDevices))
	}
	if n := float64(sum) / ledger.Unit; r.GPU == 0 {
		r.GPU = n
	} else if math.Abs(r.GPU-n) > 0.0005 {
		errs = append(errs, fmt.Errorf("Config.Resources.GPU is %v, and Config.Devices has %v: leave GPU out", r.GPU, n))
	}
	return errors.Join(errs...)
}

// share is what the node has of d, in thousandths.
func share(d raysys.Device) int64 {
	if d.Share == 0 {
		return ledger.Unit
	}
	return ledger.Thousandths(d.Share)
}

// completeMemory has a node offer what its container may have, less what its object store may take.
func (cfg *Config) completeMemory() {
	if cfg.Resources.Memory != 0 {
		return
	}
	all := objectstore.AvailableMemory()
	store := cfg.Objects.Memory
	if store == 0 {
		store = objectstore.DefaultBudget()
	}
	cfg.Resources.Memory = max(all-store, 0)
}

func (cfg *Config) ledgerDevices() (list []ledger.Device) {
	for _, d := range cfg.Devices {
		list = append(list, ledger.Device{UUID: d.UUID, Model: d.Model, Memory: d.Memory, Share: share(d)})
	}
	return list
}

// bestConnected chooses devices by their links, where those are known.
func (cfg *Config) bestConnected() ledger.Choose {
	source := cfg.DeviceSource
	if source == nil {
		return nil
	}
	return func(free []int, n int) []int { return devices.Best(source.Inventory().Links, free, n) }
}

// placementDevices are the devices of a node's record, all of them free.
func placementDevices(list []raysys.Device) (all []placement.Device) {
	for _, d := range list {
		all = append(all, placement.Device{Device: d, FreeShare: float64(share(d)) / ledger.Unit, FreeMemory: d.Memory})
	}
	return all
}

// setFree enters what a node reports to be free of all but CPU. It believes no more than what the node's record says.
func setFree(n *placement.Node, rest string) {
	r, err := loadreport.ReadRest(rest)
	if err != nil || r == nil {
		n.Free.Memory, n.Free.GPU = n.Total.Memory, n.Total.GPU
		n.Free.Custom = maps.Clone(n.Total.Custom)
		for i := range n.Devices {
			d := &n.Devices[i]
			d.FreeShare, d.FreeMemory, d.Sick = float64(share(d.Device))/ledger.Unit, d.Memory, false
		}
		return
	}
	n.Free.Memory = min(r.Memory, n.Total.Memory)
	n.Free.Custom = make(map[string]float64, len(n.Total.Custom))
	for k, total := range n.Total.Custom {
		n.Free.Custom[k] = min(float64(r.Custom[k])/ledger.Unit, total)
	}
	n.Free.GPU = 0
	for i := range n.Devices {
		d := &n.Devices[i]
		d.FreeShare, d.FreeMemory, d.Sick = 0, 0, true // that the report has no such device is no reason to choose it
		if i < len(r.Devices) {
			f := r.Devices[i]
			d.FreeShare, d.FreeMemory, d.Sick = float64(min(f.Share, share(d.Device)))/ledger.Unit, min(f.Memory, d.Memory), f.Sick
			n.Free.GPU += d.FreeShare
		}
	}
}
