package taskengine

import (
	"errors"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/wire"
)

// What waits for a task to be final (core.Finality) waits at the node that runs it. The answer says that something does, and the
// submitter says when the task is final:
//
//	submitter                                          runs the task
//	          ◄── KindTaskResult, with resultWaits ──  the turn stays in waiting
//	the turn of its own record waits for the turn above
//	          ──  KindTaskFinal ──────────────────────►  Finish

// handUp has what waits for the task wait for what submitted it. A recorded task may run again until its outcome is in the
// record, and one with a name no longer than that: see Recipe.SetTold and lineage.
func (r *record[A, R]) handUp(t *core.Turn) {
	if r.spec.opts.Name != "" {
		return
	}
	if rec := recipeOf(&r.Future); rec != nil && rec.awaitsTelling() {
		return
	}
	t.HandUp(r.Future.Up())
}

// awaitsTelling reports whether the next submitter of the task would run it again.
func (rec *recipe) awaitsTelling() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.Run() != 0 && !rec.Told() && !errors.Is(rec.why, errEffects)
}

// waitingTurns are the turns of a peer's tasks that have ended here, and for which something waits, by their run ids.
type waitingTurns struct {
	mu    sync.Mutex // guards turns
	turns map[core.TaskID]*core.Turn
}

// maxWaiting bounds the turns that wait for one peer. What waits for others goes with their turns.
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
	if last := w.turns[id]; last != nil { // an earlier attempt
		last.HandUp(t)
	}
	if len(w.turns) >= maxWaiting {
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

// HandleFinal takes a KindTaskFinal frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleFinal(wp wire.Peer, frame []byte) error {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := wire.NewReader(frame)
	for r.Len() > 0 {
		id := r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		if t := p.waiting.take(id); t != nil {
			t.Finish()
		}
	}
	return nil
}

// finalTask is a task of this node that a peer has run, and for which something waits there.
type finalTask struct {
	x  *exchange
	p  *peer
	id core.TaskID
}

// finalTasks are the tasks that a peer is to be told of.
type finalTasks struct {
	mu    sync.Mutex // guards the rest
	ids   []core.TaskID
	armed bool
}

// untilTold is how long final tasks wait for others, so that one frame has many.
const untilTold = 20 * time.Millisecond

// Final implements core.Finality.
func (f *finalTask) Final() {
	x, p := f.x, f.p
	if p.gone.Load() {
		return
	}
	l := &p.finals
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, f.id)
	if !l.armed {
		l.armed = true
		x.rt.SetAlarm(&core.Alarm{At: x.rt.Now() + int64(untilTold), Ring: func() { x.tellFinal(p) }})
	}
}

func (x *exchange) tellFinal(p *peer) {
	l := &p.finals
	l.mu.Lock()
	ids := l.ids
	l.ids, l.armed = nil, false
	l.mu.Unlock()
	for len(ids) > 0 {
		n := min(len(ids), forwarding.MaxFrame)
		var frame []byte
		for _, id := range ids[:n] {
			frame = wire.AppendID(frame, id)
		}
		ids = ids[n:]
		_ = p.Send(wire.Control, wire.KindTaskFinal, frame) // one that is lost leaves replies behind
	}
	p.Flush()
}
