//go:build cgo && linux

package nvml

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/raysys/raysys/placement/devices"
)

// gpu is one GPU of the library, and its MIG instances.
type gpu struct {
	lib     *library
	index   int
	handle  nvml.Device
	devices []nvml.Device // the handles of what Describe returned
}

// Describe implements devices.GPU.
func (g *gpu) Describe() (devices.Description, error) {
	var r nvml.Return
	if g.handle, r = g.lib.api.DeviceGetHandleByIndex(g.index); r != nvml.SUCCESS {
		return devices.Description{}, failure("open GPU", r)
	}
	self, err := g.device(g.handle)
	if err != nil {
		return devices.Description{}, err
	}
	self.Index, self.NUMA = g.index, devices.Unknown
	if g.lib.has(pciSymbols...) {
		if pci, r := g.handle.GetPciInfo(); r == nvml.SUCCESS {
			self.PCI = address(pci)
			self.NUMA = numaOf(self.PCI)
		}
	}
	g.lib.remember(g.index, g.handle)
	g.listen()
	d := devices.Description{Links: g.links()}
	instances, mig, err := g.instances()
	if err != nil || mig {
		for _, h := range instances {
			one, err := g.device(h)
			if err != nil {
				return devices.Description{}, err
			}
			one.Index, one.PCI, one.NUMA, one.GPU = self.Index, self.PCI, self.NUMA, self.UUID
			d.Devices, g.devices = append(d.Devices, one), append(g.devices, h)
		}
		return d, err
	}
	d.Devices, g.devices = []devices.Device{self}, []nvml.Device{g.handle}
	return d, nil
}

// device says what a GPU and an instance have both.
func (g *gpu) device(h nvml.Device) (d devices.Device, err error) {
	var r nvml.Return
	if d.UUID, r = h.GetUUID(); r != nvml.SUCCESS {
		return d, failure("read UUID", r)
	}
	if g.lib.has("nvmlDeviceGetName") {
		d.Model, _ = h.GetName()
	}
	if g.lib.has("nvmlDeviceGetMemoryInfo") {
		if m, r := h.GetMemoryInfo(); r == nvml.SUCCESS {
			d.Memory = int64(m.Total)
		}
	}
	return d, nil
}

// instances returns the GPU's MIG instances, and whether it is split into such: then it is no device itself, also without any.
func (g *gpu) instances() (list []nvml.Device, mig bool, err error) {
	if !g.lib.hasAll(migSymbols...) {
		return nil, false, nil
	}
	if mode, _, r := g.handle.GetMigMode(); r != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil, false, nil
	}
	n, r := g.handle.GetMaxMigDeviceCount()
	if err := failure("count MIG instances", r); err != nil {
		return nil, true, err
	}
	for i := range n {
		h, r := g.handle.GetMigDeviceHandleByIndex(i)
		if r == nvml.SUCCESS { // else there is none at this number
			list = append(list, h)
		}
	}
	return list, true, nil
}

// links lists the NVLinks that are up.
func (g *gpu) links() (list []devices.Link) {
	if !g.lib.has("nvmlDeviceGetNvLinkState") || !g.lib.has(remoteSymbols...) {
		return nil
	}
	for i := range nvml.NVLINK_MAX_LINKS {
		state, r := g.handle.GetNvLinkState(i)
		if r != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		pci, r := g.handle.GetNvLinkRemotePciInfo(i)
		if r != nvml.SUCCESS {
			continue
		}
		l := devices.Link{Remote: address(pci)}
		if g.lib.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
			kind, r := g.handle.GetNvLinkRemoteDeviceType(i)
			l.Switch = r == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH
		}
		list = append(list, l)
	}
	return list
}

// listen has the driver report the Xids of the GPU. Where it cannot, the health of the GPU is asked for as before.
func (g *gpu) listen() {
	if g.lib.events != nil {
		g.handle.RegisterEvents(nvml.EventTypeXidCriticalError, g.lib.events)
	}
}

// Sample implements devices.GPU.
func (g *gpu) Sample() (s devices.Sample, err error) {
	if g.lib.has("nvmlDeviceGetTotalEccErrors") {
		n, r := g.handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		if err := failure("read ECC errors", r); err != nil && !unknown(r) {
			return s, err
		} else if err == nil {
			s.Uncorrectable = n
		}
	}
	for _, h := range g.devices {
		u := devices.Use{Busy: devices.Unknown}
		if g.lib.has("nvmlDeviceGetMemoryInfo") {
			m, r := h.GetMemoryInfo()
			if err := failure("read memory", r); err != nil && !unknown(r) {
				return s, err
			} else if err == nil {
				u.Used = int64(m.Used)
			}
		}
		if g.lib.has("nvmlDeviceGetUtilizationRates") {
			rates, r := h.GetUtilizationRates()
			if err := failure("read utilization", r); err != nil && !unknown(r) {
				return s, err
			} else if err == nil {
				u.Busy = int(rates.Gpu)
			}
		}
		s.Uses = append(s.Uses, u)
	}
	return s, nil
}

// address is that of a device on the PCI bus as the kernel writes it: "0000:06:00.0". NVML's text has a longer domain, and early
// drivers leave it out, but not the numbers.
func address(pci nvml.PciInfo) string {
	domain, rest, ok := strings.Cut(strings.ToLower(cString(pci.BusId[:])), ":")
	n, err := strconv.ParseUint(domain, 16, 32)
	if !ok || err != nil {
		return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	}
	return fmt.Sprintf("%04x:%s", n, rest)
}

func cString(b []uint8) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

// numaOf reads the kernel's file: NVML has a call for it only in late drivers. The kernel, too, says -1 for unknown.
func numaOf(address string) int {
	b, err := os.ReadFile("/sys/bus/pci/devices/" + address + "/numa_node")
	if err != nil {
		return devices.Unknown
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return devices.Unknown
	}
	return n
}
