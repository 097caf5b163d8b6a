package ledger

// Mover is Work that can as well wait, or begin, on another node.
type Mover interface {
	Evictable
	// Leaves reports whether it would better go: another node has room for it now, or this node has none for it as its devices are.
	// It is called without a lock.
	Leaves() bool
	// Alike is equal for work that goes to the same nodes where it asks for the same: where one stays, all of that stays.
	Alike() any
}

// Move has the work that would better go to another node leave the line, the oldest of each shape first. It is told by Evict,
// without a cause. Of what waits in bundles only that goes which may be in any of its group.
func (l *Line) Move() {
	if l.Still() {
		return
	}
	l.moving.Lock() // work that one call has looked at, and not yet taken out, would be seen off twice
	defer l.moving.Unlock()
	stay := map[alike]bool{}
	l.move(stay)
	if l.Roaming.Load() != 0 {
		for _, b := range l.all() {
			b.move(stay)
		}
	}
}

// Still reports whether nothing waits that Move could have leave.
func (l *Line) Still() bool { return l.Waits.Load() == 0 && l.Roaming.Load() == 0 }

// alike is equal for work of which all stays where one does.
type alike struct {
	shape string
	work  any // Mover.Alike
}

// mover is a Mover of a shape with that name.
type mover struct {
	Mover
	shape string
}

func (l *Line) move(stay map[alike]bool) {
	moved := false
	for _, m := range l.movers() {
		w := m.Mover
		if of := (alike{m.shape, w.Alike()}); stay[of] {
			continue
		} else if !w.Leaves() {
			stay[of] = true
			continue
		}
		if len(l.remove(func(o Work) bool { return o == Work(w) })) > 0 { // else it was granted meanwhile
			moved = true
			w.Evict(nil, false)
		}
	}
	if moved {
		l.Serve() // what it lacked was kept from others
	}
}

func (l *Line) movers() (list []mover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		if l.node != nil && !s.need.Roams() {
			continue
		}
		for i := range s.claims {
			if w, ok := s.claims[i].work.(Mover); ok && !w.Over() {
				list = append(list, mover{w, s.key.name})
			}
		}
	}
	return list
}

// Could reports whether the node has what n asks for once all that holds it is given back, of the devices that are not sick.
func (l *Line) Could(n Need) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	well := 0
	for i := range l.ledger.devices {
		if d := &l.ledger.devices[i]; !d.sick && d.could(&n) {
			well++
		}
	}
	return n.count() <= well
}
