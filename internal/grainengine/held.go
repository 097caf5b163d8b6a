package grainengine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// Calls whose arguments refer to what must not leave this node yet (core.Gate) are held here, and behind each the calls
// that the same turn makes to the same grain after it: their order stays (rule C5). Stateless workers keep no order.

// heldCalls are the calls of a node that are held.
type heldCalls struct {
	open atomic.Int64 // lines
	mu   sync.Mutex   // guards the rest
	line map[heldKey]*heldLine
}

// heldKey is a turn and the grain that it calls, or one call of a stateless worker.
type heldKey struct {
	by   *core.Turn
	kind *boundKind
	key  string
	call *outboundCall
}

type heldLine struct {
	queue   []*outboundCall
	running bool // a goroutine sends from the front
}

// hold keeps a call here while its argument refers to what must not leave this node yet, or while an earlier call does
// to which it keeps its order. It is sent when that may. On an error the call was not held.
func (o *outboundCall) hold() (bool, error) {
	gate := o.call.Future.Up().Job().Gate
	if gate == nil || o.left.Load() {
		return false, nil
	}
	held := &o.kind.engine.held
	if futures := o.call.references(); len(futures) == 0 {
		o.left.Store(true)
	} else {
		gate.Leave(futures, o.mayLeave)
	}
	if o.left.Load() && (held.open.Load() == 0 || o.kind.def.Stateless) {
		return false, nil
	}
	return held.add(o)
}

func (o *outboundCall) heldKey() heldKey {
	if o.kind.def.Stateless {
		return heldKey{call: o}
	}
	return heldKey{by: o.call.Future.Up(), kind: o.kind, key: o.key}
}

// mayLeave lets the call go on, or fails it where it must not leave.
func (o *outboundCall) mayLeave(err error) {
	o.left.Store(true)
	if err != nil {
		o.fail(fmt.Errorf("%s: argument: %w", o.name(), err)) // send finds that it has settled
	}
	o.kind.engine.held.run(o.heldKey())
}

// add puts o at the end of its line; false where o may go on and there is no line.
func (h *heldCalls) add(o *outboundCall) (bool, error) {
	k := o.heldKey()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.line[k]
	switch {
	case l == nil && o.left.Load():
		return false, nil
	case l == nil:
		l = &heldLine{}
		if h.line == nil {
			h.line = map[heldKey]*heldLine{}
		}
		h.line[k] = l
		h.open.Add(1)
	case len(l.queue) >= o.kind.def.Mailbox:
		return false, overloaded(o.kind.def.Mailbox)
	}
	l.queue = append(l.queue, o)
	return true, nil
}

// run sends the calls at the front of a line that may leave.
func (h *heldCalls) run(k heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.line[k]
	if l == nil || l.running {
		return
	}
	l.running = true
	for len(l.queue) > 0 && l.queue[0].left.Load() {
		o := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		h.mu.Unlock()
		if err := o.kind.send(o.key, o.call, o); err != nil {
			o.fail(fmt.Errorf("%s: %w", o.name(), err))
		}
		h.mu.Lock()
	}
	if l.running = false; len(l.queue) == 0 {
		delete(h.line, k)
		h.open.Add(-1)
	}
}
