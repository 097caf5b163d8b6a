package grains

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/wire"
)

// Large arguments. A call whose argument is larger than wire.InlineLimit comes as a head without it, in the order of the
// small ones; the argument is asked for and comes over the bulk connection. Until it is here, later calls of the same
// peer to the same grain are held, so that their order stays (rule C5).

type holdKey struct {
	kind *boundKind
	key  string
}

// hold is the line of one peer's calls to one grain behind one that waits for its argument.
type hold struct {
	queue   []*visit
	running bool // somebody delivers from the front
}

// admit delivers v, or puts it in the line.
func (fp *farPeer) admit(v *visit) {
	k := holdKey{v.kind, v.key}
	fp.mu.Lock()
	h := fp.holds[k]
	wanted := v.argument == argumentWanted
	switch {
	case v.kind.def.stateless || h == nil && !wanted: // stateless workers keep no order
		fp.mu.Unlock()
		if !wanted {
			v.deliver()
			return
		}
	case h != nil && len(h.queue) >= v.kind.def.mailbox:
		fp.mu.Unlock()
		v.fail(fmt.Errorf("call %s: %w", v.name(), overloaded(v.kind.def.mailbox)))
		return
	default:
		if h == nil {
			h = &hold{}
			if fp.holds == nil {
				fp.holds = map[holdKey]*hold{}
			}
			fp.holds[k] = h
		}
		h.queue = append(h.queue, v)
		fp.mu.Unlock()
	}
	if wanted {
		fp.reply(v.slot, appendAnswer(nil, v.slot, statusWant))
		fp.Flush()
	}
}

// body handles the argument of a call that waits for it.
func (fp *farPeer) body(slot uint64, r *wire.Reader) error {
	fp.mu.Lock()
	v := fp.visitLocked(slot)
	if v == nil || v.argument != argumentWanted {
		fp.mu.Unlock()
		return nil // it was cancelled
	}
	v.argument = argumentComing
	fp.mu.Unlock()
	if err := v.call.take(r, fp.Peer); err != nil {
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
func (fp *farPeer) release(v *visit) {
	fp.mu.Lock()
	defer fp.mu.Unlock()
	if v.argument == argumentHere {
		return
	}
	v.argument = argumentHere
	if v.kind.def.stateless {
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
