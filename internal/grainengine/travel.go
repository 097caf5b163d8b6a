package grainengine

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// The methods of a call that let it travel.

// outbound returns the outbound part of the record, nil where it has none.
func (c *call) outbound() *outboundCall {
	if r, ok := c.Future.Work().(*outboundRecord); ok {
		return &r.outboundCall
	}
	return nil
}

// inbound returns the inbound part of a call from another node, nil for one of this node.
func (c *call) inbound() *inboundCall {
	if r, ok := c.Future.Work().(*inboundRecord); ok {
		return &r.inboundCall
	}
	return nil
}

func (c *call) expireAt(until int64) { c.until = until }

func (c *call) named() string {
	if v := c.inbound(); v != nil {
		return v.callKey
	}
	return c.method.opts.Key
}

func (c *call) bundle() core.Bundle { return c.method.opts.Bundle }

func (c *call) conditions() []core.Condition { return c.method.opts.Conditions }

func (c *call) facts() facts {
	m := c.method
	f := facts{entry: m.entry, idempotent: m.idempotent || m.kind.Durable, until: c.until, strategy: raysys.Strategy(m.opts.Strategy), labels: m.opts.Labels, waits: m.opts.Waits}
	if m.readOnly {
		f.flags |= flagReadOnly
	}
	if m.reentrant {
		f.flags |= flagReentrant
	}
	if m.opts.Deadline != 0 {
		f.flags |= flagExact
	}
	if m.kind.Durable && c.Future.Up().Kind() != core.TurnRoot {
		f.flags |= flagOfTurn
	}
	if m.opts.Key != "" {
		f.flags |= flagKeyed
	}
	return f
}

// encode appends the argument, of which size is argSize.
func (c *call) encode(dst []byte, size int, refs wire.References) ([]byte, error) {
	v := c.argAt()
	if c.method.arg.Fixed() {
		return wire.AppendValue(dst, c.method.arg, v, refs)
	}
	if size <= wire.ValueLimit {
		out, err := wire.AppendValue(dst, c.method.arg, v, refs)
		if !errors.Is(err, raysys.ErrTooLarge) {
			return out, err
		}
	}
	return wire.AppendLarge(dst, refs, core.Hold(&c.Future, 0, c.method.argType, v))
}

// argSize is about what the argument takes encoded; 0 where its type says that it is small.
func (c *call) argSize() int {
	if c.method.arg.Fixed() {
		return 0
	}
	return c.method.arg.SizeAt(c.argAt())
}

func (c *call) exports() bool { return !c.method.arg.Fixed() }

func (c *call) references() []*core.Future {
	if !c.method.arg.HasRefs() { // referred allocates
		return nil
	}
	return referred(c.method.arg, c.argAt())
}

// referred lists what the value at v refers to.
func referred(p *codec.Plan, v unsafe.Pointer) (futures []*core.Future) {
	p.RefsAt(v, func(r core.RefValue) {
		if c := r.RefFuture(); c != nil {
			futures = append(futures, c)
		}
	})
	return futures
}

func (c *call) take(r wire.Reader, refs wire.References) error {
	return readValue(r, c.method.arg, c.argAt(), refs)
}

// readValue is wire.ReadValue at the end of a frame. A value without references, thus nearly every one, needs no
// reader on the heap.
func readValue(r wire.Reader, p *codec.Plan, v unsafe.Pointer, refs wire.References) error {
	if p.HasRefs() {
		escapes := r
		return wire.ReadValue(&escapes, p, v, refs)
	}
	body := r.Sized()
	if err := r.Err(); err != nil {
		return err
	}
	return p.DecodeAt(body, v, nil)
}

// resolve settles the call with the value that is in its place. Where that goes along with the answer to another node, it is that
// node's from now on.
func (c *call) resolve() bool {
	if c.inbound() != nil && !wire.Exceeds(c.method.res, c.Future.ValueAt(), wire.PushLimit) {
		return c.Future.ResolvePassing()
	}
	return c.Future.Resolve()
}

func (c *call) settle(r wire.Reader, refs wire.References) error {
	if r.Large() {
		return c.settleElsewhere(r, refs)
	}
	if !c.Future.Start() { // it has ended: what the value refers to is given back nevertheless
		return readValue(r, c.method.res, reflect.New(c.method.value.Type).UnsafePointer(), refs)
	}
	if err := readValue(r, c.method.res, c.Future.ValueAt(), refs); err != nil {
		return err
	}
	c.dropArg() // nothing else reads the argument now
	if wire.Exceeds(c.method.res, c.Future.ValueAt(), wire.InlineLimit) {
		go c.Future.Resolve() // the store may have to make room for it, and the link's reader does not wait
	} else {
		c.Future.Resolve()
	}
	return nil
}

// Stopped implements core.Stoppable: a call that runs on another node learns that it was cancelled.
func (c *call) Stopped() {
	if e := engineOf(c.Future.Up()); e.cfg.Cluster != nil {
		if o, ok := e.forwarded.Load(&c.Future); ok {
			o.(*outboundCall).stopped()
		}
	}
}

// outboundRecord is the record of a call whose grain was not on this node when it was made.
type outboundRecord struct {
	outboundCall outboundCall
	call         // the last: see there
}

// Help implements core.Work: the caller is about to wait, so the call is sent now.
func (f *outboundRecord) Help(*core.Turn) bool {
	f.outboundCall.flush()
	return false
}

// Stopped implements core.Stoppable.
func (f *outboundRecord) Stopped() { f.outboundCall.stopped() }

// record makes the record of a call.
func (m *method) record(e *Engine, key string) (core.Work, *call) {
	if e.cfg.Cluster == nil || e.bind(m.kind).local(key) {
		c := (*call)(m.records(callHere))
		return c, c
	}
	f := (*outboundRecord)(m.records(callOut))
	f.outboundCall.call, f.outboundCall.kind, f.outboundCall.key = &f.call, e.bind(m.kind), key
	return f, &f.call
}

// local reports whether calls to key go to this node, as far as can be seen now.
func (k *boundKind) local(key string) bool {
	if k.def.Stateless {
		return k.engine.cfg.Hosts
	}
	a, _ := k.lookup(key)
	return a != nil
}

// What the search for cycles over nodes asks of calls.

// Leaves reports whether c is a call of this node to a grain that is not here, as far as is known.
func (e *Engine) Leaves(c *core.Future) bool { return e.outboundOf(c) != nil }

func (e *Engine) outboundOf(c *core.Future) *outboundCall {
	t := callOf(c)
	if t == nil {
		return nil
	}
	if o := t.outbound(); o != nil {
		return o
	}
	if v, ok := e.forwarded.Load(c); ok {
		return v.(*outboundCall)
	}
	return nil
}

// Away returns the node that has a call of this node, and the number of the call there.
func (e *Engine) Away(c *core.Future) (p wire.Peer, number uint64, ok bool) {
	o := e.outboundOf(c)
	if o == nil {
		return nil, 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peer == nil {
		return nil, 0, false
	}
	return o.peer.Peer, o.slot, true
}

// Inbound returns the call that p has here under its number, nil when it has none.
func (e *Engine) Inbound(wp wire.Peer, number uint64) *core.Future {
	p := e.peer(wp)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.inboundLocked(number); v != nil {
		return &v.call.Future
	}
	return nil
}
