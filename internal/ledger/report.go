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
	Model  string // of a bundle's, where it is known
}

// Report is what is free of all but CPU, and not owed to work that waits; nil when all of it is.
func (l *Ledger) Report(o *owed) *Report {
	r, all := l.rest(o)
	if all {
		return nil
	}
	return r
}

// rest is Report also when all of it is: all.
func (l *Ledger) rest(o *owed) (r *Report, all bool) {
	all = !o.Memory && !o.GPU && len(o.Custom) == 0 && l.free.Memory == l.total.Memory && maps.Equal(l.free.Custom, l.total.Custom)
	r = &Report{Memory: l.free.Memory, Custom: maps.Clone(l.free.Custom)}
	if o.Memory {
		r.Memory = 0
	}
	for _, k := range o.Custom {
		delete(r.Custom, k)
	}
	for i, d := range l.devices {
		all = all && d.free == d.total && d.memory == d.Memory && !d.sick
		free := FreeDevice{Share: d.free, Memory: d.memory, Sick: d.sick}
		if o.device(i) {
			free.Share, free.Memory = 0, 0
		}
		r.Devices = append(r.Devices, free)
	}
	return r, all
}
