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
// without a cause. Of what waits in bundles only that is asked which may be in any of its group; what the bundle has no devices for that are
// well goes unasked.
func (l *Line) Move() {
	if l.Still() {
		return
	}
	l.moving.Lock() // work that one call has looked at, and not yet taken out, would be seen off twice
	defer l.moving.Unlock()
	stay := map[alike]bool{}
	l.move(stay)
	if l.Roaming.Load() != 0 || l.ill.Load() {
		for _, b := range l.all() {
			b.move(stay)
		}
	}
}

// Still reports whether nothing waits that Move could have leave.
func (l *Line) Still() bool {
	return l.Waits.Load() == 0 && l.Roaming.Load() == 0 && (!l.ill.Load() || l.Idle())
}

// alike is equal for work of which all stays where one does.
type alike struct {
	shape string
	work  any // Mover.Alike
}

// mover is a Mover of a shape with that name.
type mover struct {
	Mover
	shape string
	goes  bool // unasked
}

func (l *Line) move(stay map[alike]bool) {
	moved := false
	for _, m := range l.movers() {
		w := m.Mover
		if of := (alike{m.shape, w.Alike()}); stay[of] {
			continue
		} else if !m.goes && !w.Leaves() {
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
		goes := l.node != nil && !l.ledger.could(&s.need)
		if l.node != nil && !goes && !s.need.Roams() {
			continue
		}
		for i := range s.claims {
			if w, ok := s.claims[i].work.(Mover); ok && !w.Over() {
				list = append(list, mover{w, s.key.name, goes})
			}
		}
	}
	return list
}
