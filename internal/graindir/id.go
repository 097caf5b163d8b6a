package graindir

// ID is grains.ID: it names a grain within its namespace.
type ID struct{ Kind, Key string }

// String is kind/key.
func (id ID) String() string { return id.Kind + "/" + id.Key }
