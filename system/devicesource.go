package system

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement/devices"
)

// devices are those that `raysys node` hands over; of a program on its own, those of RAYSYS_GPUS. Nil: there are none.
func (e *environment) devices(cfg *Config) devices.Source {
	const name = "RAYSYS_GPUS"
	feed, err := devices.OpenFeed(e.get(devices.FeedVariable))
	if err != nil {
		e.errs = append(e.errs, err)
		return nil
	}
	if feed != nil {
		return feed
	}
	spec, log := e.get(name), cfg.Logger
	if spec == "" || spec == "none" || log == nil {
		return nil
	}
	w, err := devices.Open(spec, devices.Config{Host: string(cfg.Name), Say: func(line string) { log.Info(line) }})
	switch {
	case errors.Is(err, devices.ErrNoLibrary):
		log.Warn("no GPUs are offered", zap.Error(err))
	case err != nil:
		e.errs = append(e.errs, fmt.Errorf("%s=%q: %w", name, spec, err))
	default:
		return w
	}
	return nil
}

// takeDevices lists what DeviceSource has as Devices.
func (cfg *Config) takeDevices() error {
	if cfg.DeviceSource == nil {
		return nil
	}
	if len(cfg.Devices) > 0 {
		return errors.New("Config.Devices and Config.DeviceSource: give one of them")
	}
	for _, d := range cfg.DeviceSource.Inventory().Devices {
		cfg.Devices = append(cfg.Devices, raysys.Device{UUID: d.UUID, Model: d.Model, Memory: d.Memory})
	}
	return nil
}

// sickChanged has what waits for a device look again. In a cluster what waits in the line does at each tick.
func (n *Node) sickChanged() {
	if n.cluster == nil {
		n.tasks.Line().Move()
		n.grains.MoveCalls()
	}
	n.tasks.RetryBundles()
}

// watchDevices keeps devices that are sick from new work, and tells those that hold them, until the node ends.
func (n *Node) watchDevices() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the node
		<-n.ending
		cancel()
	}()
	source := n.cfg.DeviceSource
	enter := func(now devices.Inventory) {
		for _, d := range now.Devices {
			tell, news := n.health.set(d.UUID, d.Sick)
			if !news {
				continue
			}
			n.tasks.Line().SetSick(d.UUID, d.Sick != "") // first: a holder that gives the device back does not get it again
			n.sickChanged()
			tell()
			if d.Sick != "" {
				n.grains.Short() // idle activations that hold it go
				n.log.Warn("device is sick and gets no new work", zap.String("device", d.UUID), zap.String("cause", d.Sick))
			} else {
				n.log.Info("device is well again", zap.String("device", d.UUID))
			}
		}
	}
	enter(source.Inventory())
	if err := source.Run(ctx, enter); ctx.Err() == nil {
		n.log.Warn("devices are not watched any more, and stay as they are", zap.Error(err))
	}
}
