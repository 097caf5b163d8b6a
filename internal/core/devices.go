package core

// DeviceWatcher is a Runtime whose node hears of devices that fail.
type DeviceWatcher interface {
	// WatchDevices calls sick once, with the first of these devices that is sick or falls sick, and why. stop ends the watch.
	WatchDevices(uuids []string, sick func(uuid, cause string)) (stop func())
}

// Holder is what NewTurn's Attached has to be for its turns to hold devices: the activation of a grain.
type Holder interface{ Devices() []string }

// Devices are the UUIDs of the devices that the turn's work holds.
func (t *Turn) Devices() []string {
	b := t.base
	if list := b.devices.Load(); list != nil {
		return append([]string(nil), *list...)
	}
	if h, ok := b.attached.(Holder); ok {
		return h.Devices()
	}
	return nil
}

// SetDevices is called before the function of a task that holds devices.
func (t *Turn) SetDevices(list []string) { t.base.devices.Store(&list) }
