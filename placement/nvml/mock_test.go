//go:build cgo && linux

package nvml

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/raysys/raysys/placement/devices"
)

// dgx is go-nvml's own DGX A100. It panics when it is asked for health, links, events or use, so these are given here.
func dgx(events *mock.EventSet) *dgxa100.Server {
	s := dgxa100.New()
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return events, nvml.SUCCESS }
	for _, device := range s.Devices {
		d := device.(*dgxa100.Device)
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS }
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 30}, nvml.SUCCESS }
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
			var p nvml.PciInfo
			copy(p.BusId[:], "00000000:C"+string(rune('0'+link/2))+":00.0")
			return p, nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	return s
}

// TestMock: the inventory of go-nvml's DGX A100, whose GPUs have twelve links to six switches, and an Xid of one GPU, which is
// known by its handle.
func TestMock(t *testing.T) {
	events := &mock.EventSet{}
	s := dgx(events)
	events.WaitFunc = func(uint32) (nvml.EventData, nvml.Return) {
		return nvml.EventData{Device: s.Devices[5], EventType: nvml.EventTypeXidCriticalError, EventData: 74}, nvml.SUCCESS
	}
	l, err := start(s, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	w, err := devices.NewWatcher(l, devices.Config{LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	i := w.Inventory()
	if len(i.Devices) != 8 {
		t.Fatalf("got %+v", i)
	}
	for n, d := range i.Devices {
		if d.UUID != s.Devices[n].(*dgxa100.Device).UUID || d.Model != "Mock NVIDIA A100-SXM4-40GB" || d.Memory != 40<<30 || d.Busy != 30 || d.Sick != "" || d.MIG() {
			t.Errorf("GPU %d: got %+v", n, d)
		}
		for m, links := range i.Links[n] {
			if m != n && links != 12 || m == n && links != 0 {
				t.Errorf("GPUs %d and %d have %d links", n, m, links)
			}
		}
	}
	if e, ok, err := l.Wait(time.Second); e != (devices.Event{GPU: 5, Xid: 74}) || !ok || err != nil {
		t.Errorf("an event of GPU 5: got %+v, %v, %v", e, ok, err)
	}
	events.WaitFunc = func(uint32) (nvml.EventData, nvml.Return) { return nvml.EventData{}, nvml.ERROR_TIMEOUT }
	if _, ok, err := l.Wait(0); ok || err != nil {
		t.Errorf("no event: got %v, %v", ok, err)
	}
}
