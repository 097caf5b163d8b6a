package tally

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

const (
	// maxEvents is how many events a recording has at most: they take 16 MiB.
	maxEvents = 16 << 20 / 64
	// eventsPerSecond is how many events a recording has room for each second. Where more tasks and calls begin, one of so many has one.
	eventsPerSecond = 20_000
	// firstEvents are what there is room for at once.
	firstEvents = eventsPerSecond / 10
	// TickRecorder is how often Recorder.Tick is called.
	TickRecorder = 10 * time.Millisecond
)

// Event is one run of a task, or one turn of a call. Who has it from Take fills it by Begin and End. It has 64 bytes.
type Event struct {
	Turn    core.TaskID // that submitted the work
	Seq     uint64      // which of its submissions that was
	Of      *Function
	Began   int64 // on the runtime's clock
	Took    int64
	Slot    uint32 // which Slot runs the task; 0 for none
	Outcome Outcome
	state   uint32
}

const (
	eventBegun uint32 = 1 + iota // Took and Outcome are not there yet
	eventEnded
)

// Begin says what runs, and since when.
func (e *Event) Begin(of *Function, c *core.Future, slot uint, now int64) {
	e.Turn, e.Seq, e.Of, e.Slot, e.Began = c.Up().ID(), c.Seq(), of, uint32(slot), now
	atomic.StoreUint32(&e.state, eventBegun)
}

// End says how it has ended.
func (e *Event) End(o Outcome, now int64) {
	e.Took, e.Outcome = now-e.Began, o
	atomic.StoreUint32(&e.state, eventEnded)
}

// Recorder keeps events of the tasks and calls that begin while the node's Tally has it, for a timeline.
type Recorder struct {
	mask   atomic.Uint64 // of mask+1 runs one is taken
	room   atomic.Int64  // how many events may be taken by now
	taken  atomic.Int64  // how many were, or a few more
	events []Event
	begun  [Stripes]stripe // runs that have begun

	// Of Tick.
	last    uint64
	perTick int64
}

// NewRecorder makes one for a recording of that time, with so many events at most.
func NewRecorder(d time.Duration, most int) *Recorder {
	n := min(most, maxEvents, int(d.Seconds()*eventsPerSecond)+firstEvents)
	first := min(n, firstEvents)
	r := &Recorder{events: make([]Event, n), perTick: int64(n-first)/max(int64(d/TickRecorder), 1) + 1}
	r.room.Store(int64(first))
	return r
}

// Take counts a run that begins, and returns its event; nil where it has none.
func (r *Recorder) Take(stripe uint) *Event {
	if n := r.begun[stripe%Stripes].ok.Add(1); n&r.mask.Load() != 0 || r.taken.Load() >= r.room.Load() {
		return nil
	}
	i := r.taken.Add(1) - 1
	if i >= int64(len(r.events)) {
		return nil
	}
	return &r.events[i]
}

// Tick makes room for the events of the next time, and chooses of how many runs one is taken, by how many have begun since the last.
func (r *Recorder) Tick() {
	begun := r.Begun()
	fresh := begun - r.last
	r.last = begun
	room := min(r.room.Load()+r.perTick, int64(len(r.events)))
	r.room.Store(room)
	left := uint64(max(room-r.taken.Load(), 1))
	r.mask.Store(1<<bits.Len64(max((fresh+left-1)/left, 1)-1) - 1) // the next power of two
}

// Begun is how many runs have begun.
func (r *Recorder) Begun() (n uint64) {
	for i := range r.begun {
		n += r.begun[i].ok.Load()
	}
	return n
}

// Taken is how many of them have events.
func (r *Recorder) Taken() int { return min(int(r.taken.Load()), len(r.events)) }

// Event returns the event with that number, which is below Taken, and whether the run has ended; nil where it is being filled.
func (r *Recorder) Event(i int) (e *Event, ended bool) {
	switch e = &r.events[i]; atomic.LoadUint32(&e.state) {
	case eventBegun:
		return e, false
	case eventEnded:
		return e, true
	}
	return nil, false
}

// Recorder is what events are to be kept in; nil where nobody wants any. It is for inlining.
func (t *Tally) Recorder() *Recorder { return t.recorder.Load() }

// Record has events kept in r from now on; nil ends that.
func (t *Tally) Record(r *Recorder) { t.recorder.Store(r) }
