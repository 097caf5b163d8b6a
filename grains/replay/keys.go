package replay

// Items are found by their keys: heads has the slot at which the chain of a key begins, and an item has the next of its chain; slots count
// from 1 there. Keys count up, so that chains are short, and keys that follow each other lie side by side: a map takes half the time of
// an insert.

func (t *table) head(key uint64) *int32 { return &t.heads[key&uint64(len(t.heads)-1)] }

// find returns the slot of a key, and -1 for one that has gone.
func (t *table) find(key uint64) int {
	if len(t.items) == 0 {
		return -1
	}
	at := *t.head(key)
	for at > 0 && t.items[at-1].key != key {
		at = t.items[at-1].next
	}
	return int(at) - 1
}

// link makes the item of a slot one that find finds.
func (t *table) link(slot int) {
	if len(t.items) <= len(t.heads) {
		t.push(slot)
		return
	}
	t.heads = make([]int32, max(64, 2*len(t.heads)))
	for i := range t.items {
		if t.items[i].chunk != nil {
			t.push(i)
		}
	}
}

func (t *table) push(slot int) {
	it := &t.items[slot]
	head := t.head(it.key)
	it.next, *head = *head, int32(slot)+1
}

func (t *table) unlink(slot int) {
	at := t.head(t.items[slot].key)
	for int(*at) != slot+1 {
		at = &t.items[*at-1].next
	}
	*at = t.items[slot].next
}
