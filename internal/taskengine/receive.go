package taskengine

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// HandleTasks takes a KindTasks frame of the peer. An error means that the frame is corrupt: the link must be closed.
func (e *Engine) HandleTasks(wp wire.Peer, frame []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := arrivals.Get().(*incoming)
	defer func() {
		*r = incoming{}
		arrivals.Put(r)
	}()
	r.Reader = wire.NewReader(frame)
	r.Uvarint() // flags
	up := p.Turn(r.Uint32())
	if err := r.Err(); err != nil {
		return fmt.Errorf("tasks from node %s: %w", p.Node(), err)
	}
	var givenBack []uint64
	defer x.startInbound()
	for r.Len() > 0 {
		slot, ok, err := x.receive(p, up, r)
		if err != nil {
			return fmt.Errorf("tasks from node %s: %w", p.Node(), err)
		}
		if !ok {
			givenBack = append(givenBack, slot)
		}
	}
	if givenBack != nil {
		x.giveBackSlots(p, givenBack)
	}
	return nil
}

// arrivals spare each frame an allocation.
var arrivals = sync.Pool{New: func() any { return new(incoming) }}

// receive takes one task; false gives it back.
func (x *exchange) receive(p *peer, up *core.Turn, in *incoming) (slot uint64, ok bool, err error) {
	r := &in.Reader
	fn, seq, h, err := taskwire.ReadTask(r)
	if err != nil {
		return 0, false, err
	}
	entry := p.Entry(fn)
	if entry == nil {
		return 0, false, fmt.Errorf("%w: no function has the number %d", wire.ErrCorrupt, fn)
	}
	task, known := entry.Impl.(*spec)
	if !known {
		return 0, false, fmt.Errorf("%w: %s is no task", wire.ErrCorrupt, entry)
	}
	// A task may arrive before its turn, over the bulk connection. It is given back, as are tasks for which there is
	// no room: their node sends them again.
	refuse := up == nil || x.e.closed.Load() || x.e.draining.Load() || x.unanswered.Load() >= int64(x.e.cfg.QueueInbound) || x.e.bytes.Load() > x.e.maxBytes
	if counted(&h) {
		x.arriving.RLock()
		defer func() {
			p.receivedCounted(h.Need)
			x.arriving.RUnlock()
		}()
	}
	if refuse && task.skip(r) {
		slot, err = slotOf(r)
		return slot, false, err
	}
	a, bad := task.receive(x, p, up, seq, h, in)
	if slot, err = slotOf(r); err != nil {
		return 0, false, err
	}
	switch {
	case refuse:
	case bad != nil:
		x.answerError(p, slot, &raysys.TaskError{
			Task: up.ID().Child(seq), Function: entry.Name, Node: up.Job().Node, Attempt: h.Attempt, Err: bad,
		})
	case h.Need != nil && x.e.fits(*h.Need) != nil:
		x.answerError(p, slot, fmt.Errorf("run %s on node %s: %w", entry, up.Job().Node, x.e.fits(*h.Need)))
	default:
		a.accept(slot)
	}
	return slot, !refuse, nil
}

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

// HandleCancel takes a KindTaskCancel frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleCancel(wp wire.Peer, frame []byte) error {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := wire.NewReader(frame)
	for r.Len() > 0 {
		slot := taskwire.ReadSlot(&r)
		if err := r.Err(); err != nil {
			return fmt.Errorf("cancellations from node %s: %w", p.Node(), err)
		}
		if a := p.inbound.cancel(slot); a != nil {
			a.Future.Cancel(&core.Orphaned{Err: raysys.ErrCancelled})
		}
	}
	return nil
}
