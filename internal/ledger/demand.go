package ledger

// Demand is work of one shape that waits.
type Demand struct {
	Need   Need
	Count  int
	Oldest int64 // when the oldest began to wait, by Hooks.Now
}

// Demand is what waits in the line, by the age of the oldest of each shape. Work that is over is left out.
func (l *Line) Demand() (list []Demand) {
	if l.Waits.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		d := Demand{Need: s.need}
		for i := range s.claims {
			if c := &s.claims[i]; !c.work.Over() {
				if d.Count++; d.Count == 1 {
					d.Oldest = c.since
				}
			}
		}
		if d.Count > 0 {
			list = append(list, d)
		}
	}
	return list
}
