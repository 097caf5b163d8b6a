package core

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
