package ledger

import "slices"

// owed is what older work lacks, and is kept from younger: what is short of all but devices, and each device that older work could
// have. Work of which another device is as good goes past.
type owed struct {
	Shortage        // GPU is that of any device
	devices  []bool // by their numbers; nil for none
}

// add adds what n, which is short of s, lacks.
func (o *owed) add(l *Ledger, n *Need, s *Shortage) {
	o.Add(s)
	if !s.GPU {
		return
	}
	if o.devices == nil {
		o.devices = make([]bool, len(l.devices))
	}
	for i := range l.devices {
		o.devices[i] = o.devices[i] || l.devices[i].could(n)
	}
}

// keeps reports whether n, which may be free but for that, asks for something that is owed, beside devices.
func (o *owed) keeps(n *Need) bool {
	s := o.Shortage
	s.GPU = false
	return s.Touches(n)
}

// of is what n asks for, beside devices, that is owed.
func (o *owed) of(n *Need) (s Shortage) {
	s.CPU, s.Memory = o.CPU && n.CPU > 0, o.Memory && n.Memory > 0
	for _, k := range o.Custom {
		if n.Custom[k] > 0 {
			s.Custom = append(s.Custom, k)
		}
	}
	return s
}

// device reports whether a device is owed.
func (o *owed) device(i int) bool { return o.devices != nil && o.devices[i] }

// owe notes what is owed from now on, and reports whether that has changed, but for CPU. What is owed is not free, as other nodes hear
// it. The caller holds mu.
func (l *Line) owe(o owed) (changed bool) {
	was := &l.owed
	changed = was.Memory != o.Memory || !slices.Equal(was.devices, o.devices) || !slices.Equal(was.Custom, o.Custom)
	l.owed = o
	l.owesCPU.Store(o.CPU)
	if changed {
		l.report.Store(nil)
	}
	return changed
}

// OwesCPU reports whether free CPU is kept for work that waits, from younger work that waits too.
func (l *Line) OwesCPU() bool { return l.owesCPU.Load() }

// Owes reports whether work that waits lacks something that h has.
func (l *Line) Owes(h *Hold) bool {
	if h == nil || l.Waits.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.shapes) > 0 && (l.lacks.keeps(&h.need) || slices.ContainsFunc(h.devices, l.lacks.device))
}
