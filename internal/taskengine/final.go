package taskengine

import (
	"errors"
	"slices"
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
//	          ──  KindTaskFinal ──────────────────────►  Finish, or Drop where the submitter will not learn of it

// handUp has what waits for the task wait for what submitted it. A recorded task may run again until its outcome is in the
// record, and one with a name no longer than that: see Recipe.SetTold and lineage.
func (r *record) handUp(t *core.Turn) {
	if r.spec.opts.Name != "" {
		return
	}
	if rec := recipeOf(&r.Future); rec != nil && rec.awaitsTelling() {
		return
	}
	if _, inbound := r.Future.Work().(*inboundTask); !inbound && r.Future.Up().Remote() { // in the place of a dead submitter
		t.Drop()
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

// HandleFinal takes a KindTaskFinal frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleFinal(wp wire.Peer, frame []byte) error {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := wire.NewReader(frame)
	dropped := false
	for r.Len() > 0 {
		id := r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		if id == (core.TaskID{}) {
			dropped = true
			continue
		}
		switch t := p.waiting.take(id); {
		case t == nil:
		case dropped:
			t.Drop()
		default:
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

func (x *exchange) tellFinal(p *peer) {
	l := &p.finals
	l.mu.Lock()
	ids, dropped := l.ids, l.dropped
	l.ids, l.dropped, l.armed = nil, nil, false
	l.mu.Unlock()
	p.tellFinal(nil, ids)
	p.tellFinal(wire.AppendID(nil, core.TaskID{}), dropped)
	p.Flush()
}

func (p *peer) tellFinal(head []byte, ids []core.TaskID) {
	for list := range slices.Chunk(ids, forwarding.MaxFrame) {
		frame := slices.Clone(head)
		for _, id := range list {
			frame = wire.AppendID(frame, id)
		}
		_ = p.Send(wire.Control, wire.KindTaskFinal, frame) // one that is lost leaves replies behind
	}
}
