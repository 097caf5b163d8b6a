package ledger

import "maps"

// Report is what is free of all but CPU.
type Report struct {
	Memory  int64
	Custom  map[string]int64 // thousandths
	Devices []FreeDevice     // in the order of the node's devices
}

// FreeDevice is what is free of one device.
type FreeDevice struct {
	Share  int64 // thousandths
	Memory int64
	Sick   bool
}

// Report is what is free of all but CPU; nil when all of it is.
func (l *Ledger) Report() *Report {
	all := l.free.Memory == l.total.Memory && maps.Equal(l.free.Custom, l.total.Custom)
	r := &Report{Memory: l.free.Memory, Custom: maps.Clone(l.free.Custom)}
	for _, d := range l.devices {
		all = all && d.free == d.total && d.memory == d.Memory && !d.sick
		r.Devices = append(r.Devices, FreeDevice{d.free, d.memory, d.sick})
	}
	if all {
		return nil
	}
	return r
}
