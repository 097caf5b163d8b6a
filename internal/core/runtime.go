package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
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
	Leave     *Leave                       // whether the node drains; nil where there are no others
	Objects   Objects                      // the node's store of large values; nil where there is none
	Prober    Prober                       // looks for cycles over nodes; nil where there are no others
	Gate      Gate                         // of what leaves the node; nil where all leaves at once
	Tasks     TaskNames                    // the detached tasks with names, of the cluster or of this process; nil where a task has none
	Weight    int                          // the job's share of a node among jobs whose work waits there; 0 stands for 1
	Span      func(context.Context) string // that of a context, see TraceKey; nil: none
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

// Leave says of a node whether it drains, and how long it has. Its zero value is a node that stays.
type Leave struct {
	mu     sync.Mutex // guards the rest
	begins chan struct{}
	leaves bool
	end    time.Time // zero where the node takes its time
	excuse time.Time // until then a task may give way to a drain that was cancelled meanwhile
}

// openExcuse is for how long after a drain without an end was cancelled a task may give way to it.
const openExcuse = 5 * time.Minute

// Begins returns a channel that is closed when the node begins to drain. One that drains has a closed one.
func (l *Leave) Begins() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.channel()
}

func (l *Leave) channel() chan struct{} {
	if l.begins == nil {
		l.begins = make(chan struct{})
	}
	return l.begins
}

// Begin says that the node drains, up to end, or for as long as it takes.
func (l *Leave) Begin(end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leaves {
		l.leaves = true
		close(l.channel())
	}
	l.end = end
}

// TakeBack says that the node stays after all.
func (l *Leave) TakeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leaves {
		return
	}
	l.leaves, l.begins, l.excuse = false, nil, l.end
	if l.end.IsZero() {
		l.excuse = time.Now().Add(openExcuse)
	}
}

// excuses reports whether a task may give way: the node drains, or its drain was cancelled while tasks that it told so
// save what they have.
func (l *Leave) excuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaves || time.Now().Before(l.excuse)
}

// Left returns how long the node that drains has, 0 where that is over and where it takes its time.
func (l *Leave) Left() (left time.Duration, leaves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leaves || l.end.IsZero() {
		return 0, l.leaves
	}
	return max(time.Until(l.end), 0), true
}

// Excuse is err, the failure of a task on a node of the job. Where that is ErrLeaving, and the task may give way, it is errExcused too.
func (j *Job) Excuse(err error) error {
	if j.Leave == nil || !errors.Is(err, ErrLeaving) || !j.Leave.excuses() {
		return err
	}
	return fmt.Errorf("%w (%w)", err, errExcused)
}

// Excused reports whether the failure is that of a task which gave way to the drain of its node.
func Excused(err error) bool { return errors.Is(err, errExcused) }

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

// Alarm is one entry of a runtime's timing wheel. It is intrusive, so that a call with a deadline costs no timer of
// its own: the record that waits embeds its Alarm.
type Alarm struct {
	At   int64  // when it rings, in nanoseconds on the runtime's clock
	Ring func() // called once, from the wheel; it must not block

	// Next, Prev and Slot belong to the wheel, which guards them.
	Next, Prev *Alarm
	Slot       int32
}

// Far is the last time that a clock of the runtime is asked for: about 146 years after its start. What is to end later
// ends then, so that sums and differences of times do not overflow.
const Far = math.MaxInt64 / 2

// After returns the time d after now, on the runtime's clock, and Far where that is later.
func After(now int64, d time.Duration) int64 {
	if int64(d) > Far-now {
		return Far
	}
	return now + int64(d)
}
