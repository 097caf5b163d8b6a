package nodedevices

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement/devices"
)

// Open returns the devices that `raysys node` hands over; of a program on its own, those of RAYSYS_GPUS. Nil: there are none.
func Open(getenv func(string) string, host string, log *zap.Logger) (devices.Source, error) {
	const name = "RAYSYS_GPUS"
	feed, err := devices.OpenFeed(getenv(devices.FeedVariable))
	if err != nil {
		return nil, err
	}
	if feed != nil {
		return feed, nil
	}
	spec := getenv(name)
	if spec == "" || spec == "none" || log == nil {
		return nil, nil
	}
	w, err := devices.Open(spec, devices.Config{Host: host, Say: func(line string) { log.Info(line) }})
	switch {
	case errors.Is(err, devices.ErrNoLibrary):
		log.Warn("no GPUs are offered", zap.Error(err))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s=%q: %w", name, spec, err)
	}
	return w, nil
}

// Take returns the devices that source has. A node that has a source is given no devices beside it.
func Take(given []raysys.Device, source devices.Source) (list []raysys.Device, err error) {
	if source == nil {
		return given, nil
	}
	if len(given) > 0 {
		return given, errors.New("Config.Devices and Config.DeviceSource: give one of them")
	}
	for _, d := range source.Inventory().Devices {
		list = append(list, raysys.Device{UUID: d.UUID, Model: d.Model, Memory: d.Memory})
	}
	return list, nil
}

// Follow keeps devices that are sick from new work, and tells those that hold them, until ended is closed.
func (h *Health) Follow(ended <-chan struct{}, source devices.Source) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the node
		<-ended
		cancel()
	}()
	enter := func(now devices.Inventory) {
		for _, d := range now.Devices {
			tell, news := h.set(d.UUID, d.Sick)
			if !news {
				continue
			}
			h.Changed(d.UUID, d.Sick != "") // first: a holder that gives the device back does not get it again
			tell()
			if d.Sick != "" {
				h.Short() // idle activations that hold it go
				h.Log.Warn("device is sick and gets no new work", zap.String("device", d.UUID), zap.String("cause", d.Sick))
			} else {
				h.Log.Info("device is well again", zap.String("device", d.UUID))
			}
		}
	}
	enter(source.Inventory())
	if err := source.Run(ctx, enter); ctx.Err() == nil {
		h.Log.Warn("devices are not watched any more, and stay as they are", zap.Error(err))
	}
}
