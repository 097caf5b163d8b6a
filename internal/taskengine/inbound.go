package taskengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// inboundTask is a task of another node that runs here: a record below the turn that stands for the submitting one, so
// that it has the same id, and with it the same raysys.Rand and the same ids of what it submits. It waits in a queue of
// its own and is never sent on.
type inboundTask struct {
	waiter   core.Waiter
	from     *peer
	slot     uint64
	answered atomic.Bool // set by the one that has the right and the duty to answer the owner
	begun    atomic.Bool // its function was, or is about to be, called
	handing  handing
	record   // the last: see record
}

// inboundOf is an inboundTask with its value and its argument, as recordOf is a record.
type inboundOf[A, R any] struct {
	task inboundTask
	val  R
	arg  A
}

// incoming is a frame of tasks while it is read.
type incoming struct {
	wire.Reader
	room    room
	accepts int64 // plain tasks that may come yet
	owes    bool  // a plain task is given back
	class   core.Class
}

// owe notes that a plain task of the class is given back.
func (in *incoming) owe(class core.Class) {
	if !in.owes || class > in.class {
		in.owes, in.class = true, class
	}
}

// room is memory for the inbound tasks that follow.
type room struct {
	of   *definition
	next unsafe.Pointer
	left int
}

const (
	// roomSize is how many inbound tasks share an allocation. The last of them to end keeps the memory of all.
	roomSize = 16
	// leastTask is the fewest bytes that a task takes in a frame.
	leastTask = 8
)

// classOf is the class of a task of the turn.
func classOf(up *core.Turn, h *taskwire.Head) core.Class {
	if h.Classed || up == nil {
		return h.Class
	}
	return up.Class()
}

// accept lets the inbound task wait: for the values it refers to, which are fetched, then for a CPU.
func (t *inboundTask) accept(slot uint64) {
	t.slot = slot
	x := t.from.x
	x.arrived(t.spec.plain, +1)
	d := t.awaitParams()
	if d == nil && t.spec.refs {
		if futures := t.dependencies(); len(futures) > 0 {
			d = &deps{futures: futures, remakes: t.spec.remakes}
			t.hold(t.Future.Up(), d)
			d.task = t
			t.Future.OwnTurn().Pin(futures)
		}
	}
	if d == nil {
		t.count(x.e)
	}
	t.Future.Expect(&t.waiter, t)
	switch {
	case t.from.inbound.put(t):
		t.Future.Cancel(&core.Orphaned{Err: raysys.ErrCancelled})
	case d != nil:
		d.waitForInputs()
	default:
		t.enqueue(x)
	}
}

// ready implements heldTask.
func (t *inboundTask) ready() {
	x := t.from.x
	bytes := t.count(x.e)
	if !t.Future.Unhold() {
		x.e.started(bytes)
		t.drop()
		return
	}
	x.e.unhold(&t.Future)
	t.enqueue(x)
	x.startInbound()
}

func (t *inboundTask) enqueue(x *exchange) {
	if t.spec.plain {
		x.inbound.Push(&t.Future)
	} else if pushed, err := x.e.pushIn(&t.Future, t.spec.need); err != nil {
		t.settleFailed(t.taskError(err, nil))
	} else if !pushed { // its bundle is on another node by now
		x.giveBack(t)
		x.flush()
	}
	// Checked after the task was queued, so that either this goroutine or the one that empties the queue finds it
	// there.
	if x.e.closed.Load() || x.e.draining.Load() {
		x.giveBackQueued()
		return
	}
}

// run implements runner.
func (t *inboundTask) run(s *core.CPUSlot) {
	if t.cancelled() == nil {
		t.begun.Store(true)
	}
	if !t.compute(s) {
		return
	}
	if !t.from.x.e.waits() {
		t.handing.open()
	}
	t.settle()
}

// handed returns the peer that the worker is to uncork: that of an answer it has just made; nil when there is none.
func (t *inboundTask) handed() *peer {
	if !t.handing.take() {
		return nil
	}
	return t.from
}

// Help implements core.Work: no goroutine of this node waits for an inbound task.
func (t *inboundTask) Help(*core.Turn) bool { return false }

// An inbound task has been placed.
func (t *inboundTask) goesToValues(*deps) bool { return false }
func (t *inboundTask) keepsParams(*deps) bool  { return false }

// claimAnswer gives one caller the right and the duty to answer the owner.
func (t *inboundTask) claimAnswer() bool { return t.answered.CompareAndSwap(false, true) }

// Resolved implements core.Resolved: the inbound task has settled, and its owner gets the outcome.
func (t *inboundTask) Resolved(*core.Waiter) {
	x := t.from.x
	if !t.claimAnswer() {
		return
	}
	t.from.inbound.remove(t)
	// A drain waits for the worker of a task that has begun. One that is settled by another goroutine at the moment
	// when its function returns was cancelled, or is late, and its owner knows that.
	waits := !t.begun.Load()
	gate := t.Future.Up().Job().Gate
	gated := gate != nil && t.spec.res != nil && t.spec.res.HasRefs() && !t.Future.Failed()
	if waits = waits || gated; waits {
		x.answering.Add(1)
	}
	x.arrived(t.spec.plain, -1)
	if !gated {
		t.tell(x, waits)
		return
	}
	gate.Leave([]*core.Future{&t.Future}, func(err error) { // what the result refers to may leave this node
		if err != nil {
			x.answerError(t.from, t.slot, t.unsent(err))
			x.answering.Add(-1)
			x.e.checkDrained()
			return
		}
		t.tell(x, waits)
	})
}

// tell sends the outcome; waits says that a drain waits for that.
func (t *inboundTask) tell(x *exchange, waits bool) {
	if t.Future.Here() {
		t.answerValue(x)
	} else {
		t.answer(x)
	}
	if waits {
		x.answering.Add(-1)
	}
	x.e.checkDrained()
}

func (t *inboundTask) answerValue(x *exchange) {
	buf := x.beginAnswer(t.from, t.slot, t.from.waiting.keep(&t.Future))
	out, err := wire.AppendResult(append(*buf, t.status(taskwire.ResultValue)), t.spec.res, t.Future.ValueAt(), &t.Future, t.from)
	if err != nil {
		out = wire.AppendError(append(*buf, t.status(taskwire.ResultError)), t.unsent(err))
	}
	x.endAnswer(t.from, buf, out, &t.handing)
}

// status is what the owner is told of an outcome.
func (t *inboundTask) status(of byte) byte {
	if own := t.Future.OwnTurn(); own == nil || own.Effects() == nil {
		return of
	}
	if of == taskwire.ResultError {
		return taskwire.ResultErrorEffects
	}
	return taskwire.ResultValueEffects
}

func (t *inboundTask) unsent(err error) error {
	return t.taskError(fmt.Errorf("send the result to node %s: %w", t.from.Node(), err), nil)
}

// answer sends the owner the outcome of an inbound task that has no value here.
func (t *inboundTask) answer(x *exchange) {
	v, err := t.Future.Outcome()
	if err != nil && t.Future.Absent() {
		v, err = nil, nil // it answers by reference
	}
	x.answer(t.from, t.slot, t.from.waiting.keep(&t.Future), func(dst []byte) ([]byte, error) {
		switch {
		case err == nil:
			out, bad := wire.AppendResult(append(dst, t.status(taskwire.ResultValue)), t.spec.res, wire.AddressOf(v), &t.Future, t.from)
			if bad == nil {
				return out, nil
			}
			err = t.unsent(bad)
		case t.Future.Up().Job().Top.Cancelled() == nil:
		case t.begun.Load():
			// This node closes, which may have failed the task: that is no outcome of the task.
			return append(dst, taskwire.ResultLost), nil
		default:
			return append(dst, taskwire.ResultGivenBack), nil
		}
		return wire.AppendErrorTo(append(dst, t.status(taskwire.ResultError)), t.from.Peer, err), nil
	})
}

var errGivenBack = errors.New("the task was given back to its owner")

// inboundTable finds the tasks of one peer that are here by their slots, for cancellation. Slots are small numbers that
// the peer uses again, so the table is a list of pages, which are read without a lock.
type inboundTable struct {
	pages atomic.Pointer[[]*inboundPage]
	some  atomic.Int32 // length of early

	mu    sync.Mutex      // guards early, and that pages are added
	early map[uint64]bool // cancelled before they came: control frames overtake requests
}

const pageSize = 1 << 10

type inboundPage [pageSize]atomic.Pointer[inboundTask]

// maxEarly bounds the cancellations that wait for their task. A cancellation that crossed its result would stay for
// ever, so the table is emptied when it is full. A task that was cancelled then runs, though its outcome is not
// needed.
const maxEarly = 4096

// at returns the cell of a slot, nil when there was never an inbound task.
func (t *inboundTable) at(slot uint64) *atomic.Pointer[inboundTask] {
	i := slot & (1<<32 - 1)
	if pages := t.pages.Load(); pages != nil && i/pageSize < uint64(len(*pages)) {
		return &(*pages)[i/pageSize][i%pageSize]
	}
	return nil
}

// grow makes the pages up to that of a slot, which is below forwarding.MaxFlights, see HandleTasks.
func (t *inboundTable) grow(slot uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pages []*inboundPage
	if old := t.pages.Load(); old != nil {
		pages = *old
	}
	pages = slices.Clone(pages)
	for uint64(len(pages)) <= slot&(1<<32-1)/pageSize {
		pages = append(pages, new(inboundPage))
	}
	t.pages.Store(&pages)
}

// put enters an inbound task, and reports whether it was cancelled before it came.
func (t *inboundTable) put(a *inboundTask) (cancelled bool) {
	slot := a.slot
	cell := t.at(slot)
	if cell == nil {
		t.grow(slot)
		cell = t.at(slot)
	}
	cell.Store(a)
	if a.answered.Load() { // its deadline may have passed already
		cell.CompareAndSwap(a, nil)
	}
	if t.some.Load() == 0 { // cancel counts before it looks at the cell again
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancelled = t.early[slot]; cancelled {
		delete(t.early, slot)
		t.some.Store(int32(len(t.early)))
	}
	return cancelled
}

// remove takes it out, unless another has its cell.
func (t *inboundTable) remove(a *inboundTask) {
	if cell := t.at(a.slot); cell != nil {
		cell.CompareAndSwap(a, nil)
	}
}

// cancel returns the inbound task of the slot, or remembers it for the task that is still on its way.
func (t *inboundTable) cancel(slot uint64) *inboundTask {
	if a := t.find(slot); a != nil {
		return a
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.early) >= maxEarly {
		clear(t.early)
	}
	if t.early == nil {
		t.early = map[uint64]bool{}
	}
	t.early[slot] = true
	t.some.Store(int32(len(t.early)))
	if a := t.find(slot); a != nil { // it came just now, and may have looked before that
		delete(t.early, slot)
		t.some.Store(int32(len(t.early)))
		return a
	}
	return nil
}

func (t *inboundTable) find(slot uint64) *inboundTask {
	cell := t.at(slot)
	if cell == nil {
		return nil
	}
	if a := cell.Load(); a != nil && a.slot == slot {
		return a
	}
	return nil
}

// each calls f with the inbound tasks that are in the table.
func (t *inboundTable) each(f func(*inboundTask)) {
	pages := t.pages.Load()
	if pages == nil {
		return
	}
	for _, page := range *pages {
		for i := range page {
			if a := page[i].Load(); a != nil {
				f(a)
			}
		}
	}
}

// arrivals spare each frame an allocation.
var arrivals = sync.Pool{New: func() any { return new(incoming) }}

func slotOf(r *wire.Reader) (uint64, error) {
	slot := taskwire.ReadSlot(r)
	if err := r.Err(); err != nil {
		return 0, err
	}
	if i := slot & (1<<32 - 1); i >= 2*forwarding.MaxFlights {
		return 0, fmt.Errorf("%w: slot %d is beyond what a node may have in flight", wire.ErrCorrupt, i)
	}
	return slot, nil
}

// readParams is the receiving side: the objects are fetched once the task is accepted.
func (t *inboundTask) readParams(r *wire.Reader, up *core.Turn, refs wire.References) error {
	d := &deps{remakes: t.spec.remakes}
	params := t.spec.params(t.argAt())
	for _, p := range params {
		c, err := refs.ReadRef(r)
		if err != nil {
			return err
		}
		if err := p.set(c); err != nil {
			return fmt.Errorf("parameter of %s: %w", t.Name(), err)
		}
	}
	if up == nil { // its turn is not known, and it goes back
		return nil
	}
	d.params.Store(&params)
	own := t.Future.OwnTurn()
	if own == nil {
		own = core.NewTurn(core.TurnSpec{Kind: core.TurnTask, Name: t.Name(), ID: t.Future.ID(), Up: up, Attempt: 1})
	}
	own.Attach(d)
	t.Future.SetOwn(own)
	return nil
}

// awaitParams returns what the inbound task waits for when its argument came as objects.
func (t *inboundTask) awaitParams() *deps {
	own := t.Future.OwnTurn()
	if own == nil {
		return nil
	}
	d, ok := own.Attached().(*deps)
	if !ok {
		return nil
	}
	for _, p := range *d.params.Load() {
		p.pin()
		d.futures = append(d.futures, p.future)
	}
	t.hold(t.Future.Up(), d)
	d.task = t
	t.inner(d, t)
	return d
}

// recipeNow implements recordable: the node that submitted the task has its recipe.
func (t *inboundTask) recipeNow() (*recipe, bool) { return nil, false }

// Remake implements core.Remaker: the node that submitted the task makes its value again. The source that has lost it may
// know that node; where it is this one by now, the future has its recipe.
func (t *inboundTask) Remake(c *core.Future, lost error, done func(core.Source, error)) {
	if rec := recipeOf(c); rec != nil {
		engineOf(c.Up()).remake(rec, lost, done)
		return
	}
	if by, ok := core.SourceOf(c).(core.Remaker); ok {
		by.Remake(c, lost, done)
		return
	}
	done(nil, lost)
}
