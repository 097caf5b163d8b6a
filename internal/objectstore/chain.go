package objectstore

// chain is a list of objects, least recently used first, linked through the objects themselves: a million of them cost no
// further allocation. The store's mutex guards it.
type chain struct {
	root link
	len  int
}

// link is an object's place in a chain.
type link struct {
	prev, next *link
	in         *chain
	object     *Object
}

// push puts l at the end, as the most recently used, wherever it was.
func (c *chain) push(l *link) {
	l.remove()
	if c.root.next == nil {
		c.root.prev, c.root.next = &c.root, &c.root
	}
	last := c.root.prev
	l.prev, l.next, l.in = last, &c.root, c
	last.next, c.root.prev = l, l
	c.len++
}

func (l *link) remove() {
	if l.in == nil {
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.in.len--
	l.prev, l.next, l.in = nil, nil, nil
}

// first returns the least recently used object that ok accepts, nil when there is none.
func (c *chain) first(ok func(*Object) bool) *Object {
	if c.len == 0 {
		return nil
	}
	for l := c.root.next; l != &c.root; l = l.next {
		if ok(l.object) {
			return l.object
		}
	}
	return nil
}
