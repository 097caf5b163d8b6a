package core

import (
	"sync"
	"unsafe"
)

// Runtime is what the verbs of this package need from the system that runs the work. An unexported type of package
// system implements it for each node.
//
// It also has the node's engines, by two methods whose types this package must not import:
//
//	Tasks() *taskengine.Engine     the interface taskengine.Runtime
//	Grains() *grainengine.Engine   the interface grainengine.Runtime
//
// The engines assert theirs, unchecked (engineOf in each): a Runtime without it panics at the first submission or call.
type Runtime interface {
	// Now is the runtime's monotonic clock in nanoseconds.
	Now() int64
	// SetAlarm arms a; ClearAlarm disarms it and reports whether it had yet to ring.
	SetAlarm(a *Alarm)
	ClearAlarm(a *Alarm) bool
	// Block gives back the CPU of the turn on the calling goroutine, which is about to park; Unblock takes it again.
	Block(t *Turn)
	Unblock(t *Turn)
}

// Inspector sees every value that changes hands: it may replace it by a copy (strict mode). place says which value
// of which function, for reports. at points to the value: it travels as the type that the function declares, which may
// be an interface.
type Inspector interface {
	HandOver(place string, at any) error
	// Lend is for a value that is looked at until back is called, and must not change meanwhile.
	Lend(place string, at any) (back func(), err error)
	// Fail returns what another node would get in place of err, the failure of a program's function.
	Fail(err error) error
}

// Job is what all turns of one run of a driver have in common.
type Job struct {
	ID        JobID
	Namespace string
	Node      NodeID
	Runtime   Runtime
	Table     *Table
	Top       *Turn                        // ends with the node; above every driver's turn
	Inspect   Inspector                    // nil outside strict mode
	Unseen    func(work string, err error) // called for a failure that was never read; nil to ignore
	Panicked  func(work string, err error) // called for a panic of user code here; nil to ignore
	Closed    <-chan struct{}              // closed when the node closes, for drivers that wait
	Objects   Objects                      // the node's store of large values; nil where there is none
	Prober    Prober                       // looks for cycles over nodes; nil where there are no others
	Gate      Gate                         // of what leaves the node; nil where all leaves at once
	Tasks     TaskNames                    // the detached tasks with names, of the cluster or of this process; nil where a task has none
	Weight    int                          // the job's share of a node among jobs whose work waits there; 0 stands for 1
	Run       uint64                       // the incarnation of the node whose driver the work comes from, drawn where it is in no cluster; 0 before it has one

	parkers sync.Pool // of *parker
}

// HandOver passes the value of t at p through the job's inspector, if there is one, which changes it.
func HandOver(j *Job, place string, t *ValueType, p unsafe.Pointer) error {
	if j.Inspect == nil {
		return nil
	}
	return j.Inspect.HandOver(place, t.At(p).Addr().Interface())
}

// HandOverError passes the failure of a program's function through the job's inspector, if there is one.
func HandOverError(j *Job, err error) error {
	if j.Inspect == nil {
		return err
	}
	return j.Inspect.Fail(err)
}
