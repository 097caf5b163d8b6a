package grainengine

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Large arguments. A call whose argument is larger than wire.InlineLimit comes as a head without it, in the order of
// the small ones; the argument is asked for and comes over the bulk connection. Until it is here, later calls of the
// same peer to the same grain are held, so that their order stays (rule C5). One that is too large for a frame comes as
// a reference to an object, and waits in the same line while that is fetched (object.go).

type holdKey struct {
	kind *boundKind
	key  string
}

// hold is the line of one peer's calls to one grain behind one that waits for its argument.
type hold struct {
	queue   []*inboundCall
	running bool // somebody delivers from the front
}

// admit remembers a call that arrived, unless it was cancelled before, and delivers it or puts it in the line. object
// is where its argument is, if it is an object.
func (fp *farPeer) admit(v *inboundCall, object *core.Future) error {
	i := v.slot & (1<<32 - 1)
	if i >= maxInFlight {
		return fmt.Errorf("%w: call number %d, and at most %d may be open", wire.ErrCorrupt, i, maxInFlight)
	}
	fp.mu.Lock()
	if _, gone := fp.early[v.slot]; gone {
		delete(fp.early, v.slot)
		fp.mu.Unlock()
		return nil
	}
	for uint64(len(fp.inbound)) <= i {
		fp.inbound = append(fp.inbound, nil)
	}
	fp.inbound[i] = v // one that the caller has given up may still run under an older generation of the number
	wanted := v.argument != argumentHere
	if len(fp.holds) == 0 && !wanted || v.kind.def.Stateless { // stateless workers keep no order
		fp.mu.Unlock()
		if !wanted {
			v.deliver()
			return nil
		}
	} else if !fp.lineUp(v, wanted) {
		return nil
	}
	switch {
	case object != nil:
		v.call.pull(v, object)
	case wanted:
		fp.reply(v.slot, appendAnswer(nil, v.slot, statusWant))
		fp.Flush()
	}
	return nil
}

// lineUp puts v behind what its grain holds for this peer; where that is nothing, and v has its argument, it delivers
// v. It releases the lock. False when v went no further.
func (fp *farPeer) lineUp(v *inboundCall, wanted bool) bool {
	k := holdKey{v.kind, v.key}
	h := fp.holds[k]
	switch {
	case h == nil && !wanted:
		fp.mu.Unlock()
		v.deliver()
		return true
	case h != nil && len(h.queue) >= v.kind.def.Mailbox:
		fp.mu.Unlock()
		v.fail(fmt.Errorf("call %s: %w", v.name(), overloaded(v.kind.def.Mailbox)))
		return false
	case h == nil:
		h = &hold{}
		if fp.holds == nil {
			fp.holds = map[holdKey]*hold{}
		}
		fp.holds[k] = h
	}
	h.queue = append(h.queue, v)
	fp.mu.Unlock()
	return true
}

// body handles the argument of a call that waits for it.
func (fp *farPeer) body(slot uint64, r *wire.Reader) error {
	fp.mu.Lock()
	v := fp.inboundLocked(slot)
	if v == nil || v.argument != argumentWanted {
		fp.mu.Unlock()
		return nil // it was cancelled
	}
	v.argument = argumentComing
	fp.mu.Unlock()
	if err := v.call.take(*r, fp.Peer); err != nil {
		v.fail(fmt.Errorf("%s: argument: %w", v.name(), err)) // Resolved releases the line
		if errors.Is(err, wire.ErrCorrupt) {
			return err
		}
		return nil
	}
	fp.release(v)
	return nil
}

// release lets v, and what it held up, go on: its argument is here, or it is over.
func (fp *farPeer) release(v *inboundCall) {
	fp.mu.Lock()
	defer fp.mu.Unlock()
	if v.argument == argumentHere {
		return
	}
	v.argument = argumentHere
	if v.kind.def.Stateless {
		fp.mu.Unlock()
		v.deliver()
		fp.mu.Lock()
		return
	}
	k := holdKey{v.kind, v.key}
	h := fp.holds[k]
	if h == nil || h.running {
		return
	}
	h.running = true
	for len(h.queue) > 0 && h.queue[0].argument == argumentHere {
		next := h.queue[0]
		h.queue[0] = nil
		h.queue = h.queue[1:]
		fp.mu.Unlock()
		next.deliver()
		fp.mu.Lock()
	}
	h.running = false
	if len(h.queue) == 0 {
		delete(fp.holds, k)
	}
}
