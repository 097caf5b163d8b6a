package items

// Recent has what came of the last calls, by their IDs. The zero Recent has none.
type Recent[V any] struct {
	of  map[uint64]V
	ids []uint64 // the oldest first
}

// Len is how many there are.
func (r *Recent[V]) Len() int { return len(r.ids) }

// Get returns what came of a call.
func (r *Recent[V]) Get(id uint64) (V, bool) {
	v, ok := r.of[id]
	return v, ok
}

// Add keeps what came of a call, in the place of what was kept of it.
func (r *Recent[V]) Add(id uint64, v V) {
	if r.of == nil {
		r.of = map[uint64]V{}
	}
	if _, known := r.of[id]; !known {
		r.ids = append(r.ids, id)
	}
	r.of[id] = v
}

// Drop forgets the oldest, and returns what came of it.
func (r *Recent[V]) Drop() V {
	v := r.of[r.ids[0]]
	delete(r.of, r.ids[0])
	r.ids = r.ids[1:]
	return v
}
