package taskengine

import (
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// What waits for a task to be final (core.Finality) waits at the node that runs it. The answer says that something does, and the
// submitter says when the task is final:
//
//	submitter                                          runs the task
//	          ◄── KindTaskResult, with resultWaits ──  the turn stays in waiting
//	the turn of its own record waits for the turn above
//	          ──  KindTaskFinal ──────────────────────►  Finish, or Drop where the submitter will not learn of it

// waitingTurns are the turns of a peer's tasks that have ended here, and for which something waits, by their run ids.
type waitingTurns struct {
	mu    sync.Mutex // guards the rest
	turns map[core.TaskID]*core.Turn
	gone  bool // the peer
}

// maxWaiting bounds the turns that wait for one peer. What waits for others is dropped.
const maxWaiting = 1 << 16

// keep keeps the turn of an inbound task that ends if something waits for it, and reports that.
func (w *waitingTurns) keep(c *core.Future) bool {
	t := c.OwnTurn()
	if t == nil || !t.Awaits() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := c.RunID()
	last := w.turns[id]
	if last != nil { // an earlier attempt
		last.HandUp(t)
	}
	if w.gone || last == nil && len(w.turns) >= maxWaiting {
		t.Drop()
		return false
	}
	if w.turns == nil {
		w.turns = map[core.TaskID]*core.Turn{}
	}
	w.turns[id] = t
	return true
}

func (w *waitingTurns) take(id core.TaskID) *core.Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.turns[id]
	delete(w.turns, id)
	return t
}

// end drops what waits: the peer is gone.
func (w *waitingTurns) end() {
	w.mu.Lock()
	turns := w.turns
	w.turns, w.gone = nil, true
	w.mu.Unlock()
	for _, t := range turns {
		t.Drop()
	}
}

// finalTask is a task of this node that a peer has run, and for which something waits there.
type finalTask struct {
	x  *exchange
	p  *peer
	id core.TaskID
}

// finalTasks are the tasks that a peer is to be told of.
type finalTasks struct {
	mu      sync.Mutex // guards the rest
	ids     []core.TaskID
	dropped []core.TaskID // those of which this node will not say that they are final
	armed   bool
}

// untilTold is how long final tasks wait for others, so that one frame has many.
const untilTold = 20 * time.Millisecond

// Final implements core.Finality.
func (f *finalTask) Final() { f.tell(&f.p.finals.ids) }

// Dropped implements core.Finality.
func (f *finalTask) Dropped() { f.tell(&f.p.finals.dropped) }

func (f *finalTask) tell(list *[]core.TaskID) {
	x, p := f.x, f.p
	if p.gone.Load() {
		return
	}
	l := &p.finals
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, f.id)
	if !l.armed {
		l.armed = true
		x.rt.SetAlarm(&core.Alarm{At: x.rt.Now() + int64(untilTold), Ring: func() { x.tellFinal(p) }})
	}
}

// A task with a name may run for longer than its nodes live, so a node that dies is no attempt of it. One that dies soon after it was given
// the task is: the task may be what ends it, and must not go round the nodes. In a row, Retries bounds those:
//
//	ran ──► its node is lost ──► excused, and so are those before      a node that drains ──► excused
//	       not ran ──► its node is lost ──► counted
//
// The record counts the same for nodes that were its submitters: see registry.TaskRecord.Early.

// Ran notes that c, a task with a name, has run for a while in its attempt.
func Ran(c *core.Future) {
	r, rec := taskOf(c), recipeOf(c)
	if r == nil || rec == nil {
		return
	}
	t := r.Future.OwnTurn() // the recipe hangs there
	attempt, redraws := t.Attempt(), int(t.Redraws())
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ran = attempt
	rec.excused = attempt - r.spec.before - 1 - redraws
}
