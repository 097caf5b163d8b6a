package core

// Gate holds back what names futures of this node to other nodes, until it may leave: where the lineage of tasks is
// durable, until their recipes are recorded.
type Gate interface {
	// Leave calls then once: on this goroutine where another node may be told of the futures now, else when it may, or with
	// why it must not. It must not block.
	Leave(futures []*Future, then func(error))
}

// Referring is the Source of a value that refers to others, which are known while the value is not here.
type Referring interface {
	Source
	Refers() []*Future
}

// Recorded is a recipe that may be recorded.
type Recorded interface {
	// Run is the run under which the recipe is recorded; 0 while it is not.
	Run() uint64
	// Told reports whether the outcome is in the record.
	Told() bool
}

// RecordedUnder returns the run under which the recipe of c is recorded; 0 for work without one.
func RecordedUnder(c *Future) uint64 {
	if r, ok := c.Recipe().(Recorded); ok {
		return r.Run()
	}
	return 0
}

// Untold reports whether c is the future of a recorded task whose outcome is not in the record: no other node may learn it.
func Untold(c *Future) bool {
	r, ok := c.Recipe().(Recorded)
	return ok && r.Run() != 0 && !r.Told()
}
