package ledger

// Demand is work of one shape that waits.
type Demand struct {
	Need   Need
	Group  string // the placement group in whose bundles it waits; "" for work that waits for what the node has free
	Count  int
	Oldest int64 // when the oldest began to wait, by Hooks.Now
}

// Demand is what waits in the line and in those of its bundles, by the age of the oldest of each shape in each line. Work that is
// over is left out, and a Gathering, since its group waits elsewhere.
func (l *Line) Demand() (list []Demand) {
	list = l.demand("")
	for _, b := range l.all() {
		list = append(list, b.demand(b.name.Group)...)
	}
	return list
}

func (l *Line) demand(group string) (list []Demand) {
	if l.Waits.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		d := Demand{Need: s.need, Group: group}
		for i := range s.claims {
			if c := &s.claims[i]; !c.work.Over() && !gathers(c.work) {
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
