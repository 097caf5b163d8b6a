package due

import "strings"

// wake is what an item says that asks for no schedule, but for the call of a grain that is always on. It stands in Why
// of an item without a record: a node of a version before takes that for a schedule which was deleted, and has none of
// the name.
const wake = "wake"

// Wake is the item by which a leader has a worker call a grain: its namespace, kind and key, with zeroes between.
func Wake(grain string) Item {
	ns, name, _ := strings.Cut(grain, "\x00")
	return Item{Name: Name{ns, name}, Why: wake}
}

// Wakes reports whether the item asks for a call of a grain, and of which.
func (i *Item) Wakes() (kind, key string, ok bool) {
	kind, key, ok = strings.Cut(i.Name.Name, "\x00")
	return kind, key, ok && i.Why == wake && !i.Exists()
}

// Kind is that of the grain.
func (i *Item) Kind() string {
	kind, _, _ := i.Wakes()
	return kind
}
