package core

// Gate holds back what names futures of this node to other nodes, until it may leave: where the lineage of tasks is
// durable, until their recipes are recorded.
type Gate interface {
	// Leave calls then once: on this goroutine where another node may be told of the futures now, else when it may, or with
	// why it must not. It must not block.
	Leave(futures []*Future, then func(error))
}

// StateGate is a Gate that has the tasks stay to which the States of grains refer.
type StateGate interface {
	// RetainTask has the task of c, which has settled with an object, recorded, and its record stay while the record of the
	// State with the key lists the task. done is called once, on any goroutine, with an error where the reference must not leave.
	RetainTask(c *Future, state string, done func(RetainedTask, error))
}

// RetainedTask names a recorded task to which a State refers.
type RetainedTask struct {
	Run      uint64 // 0 where the task is not recorded
	ID       TaskID
	Retained bool // the State shall list it
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
