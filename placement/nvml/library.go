//go:build cgo && linux

package nvml

import (
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/raysys/raysys/placement/devices"
)

// library is the driver's library, initialized.
type library struct {
	symbols
	api    nvml.Interface
	events nvml.EventSet // nil where there are none

	handles struct {
		mu   sync.Mutex // guards list: GPUs are described at the same time
		list []nvml.Device
	}
}

// GPUs implements devices.Library.
func (l *library) GPUs() ([]devices.GPU, error) {
	n, r := l.api.DeviceGetCount()
	if err := failure("count GPUs", r); err != nil {
		return nil, err
	}
	if l.has(eventSymbols...) && l.hasAll(registerSymbols...) {
		if set, r := l.api.EventSetCreate(); r == nvml.SUCCESS {
			l.events = set
		}
	}
	l.handles.list = make([]nvml.Device, n)
	gpus := make([]devices.GPU, n)
	for i := range gpus {
		gpus[i] = &gpu{lib: l, index: i}
	}
	return gpus, nil
}

// Wait implements devices.Library.
func (l *library) Wait(limit time.Duration) (e devices.Event, ok bool, err error) {
	if l.events == nil {
		return e, false, fmt.Errorf("%w: the driver has no events", devices.ErrNoLibrary)
	}
	data, r := l.events.Wait(uint32(limit.Milliseconds()))
	if r == nvml.ERROR_TIMEOUT {
		return e, false, nil
	}
	if err := failure("wait for events of GPUs", r); err != nil {
		return e, false, err
	}
	return devices.Event{GPU: l.place(data.Device), Xid: data.EventData}, true, nil
}

// place is the number of the GPU with that handle: one that is lost cannot be asked for its UUID.
func (l *library) place(handle nvml.Device) int {
	l.handles.mu.Lock()
	defer l.handles.mu.Unlock()
	for i, h := range l.handles.list {
		if h != nil && h == handle {
			return i
		}
	}
	return devices.Unknown
}

func (l *library) remember(i int, handle nvml.Device) {
	l.handles.mu.Lock()
	defer l.handles.mu.Unlock()
	l.handles.list[i] = handle
}
