package grainengine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Large arguments. A call whose argument is larger than wire.InlineLimit comes as a head without it, in the order of
// the small ones. The argument comes over the bulk connection: up to wire.PushLimit unasked (pushed.go), and else this node asks for it.
// Until it is here, later calls of the same peer to the same grain wait in a line, so that their order stays (rule C5). An argument that
// is too large for a frame comes as a reference to an object, and its call waits in the same line while that is fetched (object.go).

type lineKey struct {
	kind *boundKind
	key  string
}

// line is the line of one peer's calls to one grain behind one that waits for its argument.
type line struct {
	queue   []*inboundCall
	running bool // a goroutine delivers from the front
}

// enter records a call that arrived, unless it was cancelled before, and delivers it or puts it in the line. object is
// its argument where that is an object, else nil, and foreign where code of the program decodes it; pushed says that it comes unasked.
func (p *peer) enter(v *inboundCall, object *core.Future, foreign []byte, pushed bool) error {
	i := v.slot & (1<<32 - 1)
	if i >= maxInFlight {
		return fmt.Errorf("%w: call number %d, and at most %d may be open", wire.ErrCorrupt, i, maxInFlight)
	}
	p.mu.Lock()
	var argument []byte
	asks := true
	if pushed {
		argument, asks = p.pushed.head(v.slot)
	}
	if _, gone := p.early[v.slot]; gone {
		delete(p.early, v.slot)
		p.mu.Unlock()
		return nil
	}
	for uint64(len(p.inbound)) <= i {
		p.inbound = append(p.inbound, nil)
	}
	p.inbound[i] = v // one that the caller has given up may still run under an older generation of the number
	wanted := v.argument != argumentHere
	if len(p.lines) == 0 && !wanted || v.kind.def.Stateless { // stateless workers keep no order
		p.mu.Unlock()
		if !wanted {
			v.deliver()
			return nil
		}
	} else if !p.lineUp(v, wanted) {
		return nil
	}
	switch {
	case object != nil:
		v.call.pull(v, object)
	case foreign != nil:
		go func() { _ = readArgument(p, v, wire.NewReader(foreign)) }()
	case argument != nil:
		r := wire.NewReader(argument)
		return p.body(v.slot, false, &r)
	case wanted && asks:
		p.reply(v.slot, appendAnswer(nil, v.slot, statusWant))
		p.Flush()
	}
	return nil
}

// lineUp puts v at the end of its line; without a line it delivers a v that has its argument. It unlocks. False when v
// was refused.
func (p *peer) lineUp(v *inboundCall, wanted bool) bool {
	k := lineKey{v.kind, v.key}
	l := p.lines[k]
	switch {
	case l == nil && !wanted:
		p.mu.Unlock()
		v.deliver()
		return true
	case l != nil && len(l.queue) >= v.kind.def.Mailbox:
		p.mu.Unlock()
		v.fail(fmt.Errorf("call %s: %w", v.name(), overloaded(v.kind.def.Mailbox)))
		return false
	case l == nil:
		l = &line{}
		if p.lines == nil {
			p.lines = map[lineKey]*line{}
		}
		p.lines[k] = l
	}
	l.queue = append(l.queue, v)
	p.mu.Unlock()
	return true
}

// body handles the argument of a call that waits for it, and one that was pushed and came before its call, or without one.
func (p *peer) body(slot uint64, pushed bool, r *wire.Reader) error {
	p.mu.Lock()
	v := p.inboundLocked(slot)
	switch waits := v != nil && v.argument == argumentWanted; {
	case waits:
		p.pushed.arrived(slot)
	case pushed && r.Len() == 0:
		p.pushed.head(slot) // and its call will not come
	case pushed:
		p.pushed.argument(slot, r.Rest())
	}
	if v == nil || v.argument != argumentWanted {
		p.mu.Unlock()
		return nil
	}
	v.argument = argumentComing
	p.mu.Unlock()
	if readsForeign(v.call.method.arg) {
		late := wire.NewReader(slices.Clone(r.Rest()))
		go func() { _ = readArgument(p, v, late) }()
		return nil
	}
	return readArgument(p, v, *r)
}

// readsForeign reports whether code of the program decodes values of a plan. That may wait, so the goroutine that reads a connection does not
// call it: others of the peer would wait too. References are counted as they come.
func readsForeign(plan *codec.Plan) bool { return plan.Foreign() && !plan.HasRefs() }

// readArgument decodes the argument of a call that waits for it.
func readArgument(p *peer, v *inboundCall, r wire.Reader) error {
	if err := v.call.take(r, p.Peer); err != nil {
		v.fail(fmt.Errorf("%s: argument: %w", v.name(), err)) // Resolved lets the line go on
		if errors.Is(err, wire.ErrCorrupt) {
			return err
		}
		return nil
	}
	p.release(v)
	return nil
}

// release lets v and the calls behind it go on: its argument is here, or it has ended.
func (p *peer) release(v *inboundCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.argument == argumentHere {
		return
	}
	v.argument = argumentHere
	if v.kind.def.Stateless {
		p.mu.Unlock()
		v.deliver()
		p.mu.Lock()
		return
	}
	k := lineKey{v.kind, v.key}
	l := p.lines[k]
	if l == nil || l.running {
		return
	}
	l.running = true
	for len(l.queue) > 0 && l.queue[0].argument == argumentHere {
		next := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		p.mu.Unlock()
		next.deliver()
		p.mu.Lock()
	}
	l.running = false
	if len(l.queue) == 0 {
		delete(p.lines, k)
	}
}
