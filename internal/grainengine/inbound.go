package grainengine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/outbox"
)

// inboundCall is the part of a record that only calls from other nodes have.
type inboundCall struct {
	call     *call
	kind     *boundKind
	key      string
	peer     *peer
	slot     uint64      // the caller's number
	target   *activation // that the key had when the call came; nil once it is delivered
	token    graindir.Token
	result   *codec.Plan
	waiter   core.Waiter
	answered atomic.Bool
	ofTurn   bool          // a task or a grain made the call
	seeks    bool          // it may be refused for want of room
	bound    bool          // it says where its grain is to be
	argument argumentState // of a large argument; guarded by peer.mu
	callKey  string        // the program's; empty for most
	first    int64         // when a call with a key was first made; 0 where the caller does not say it
	sent     *outbox.Sent  // the message that it delivers; nil for most
	came     int64         // when it arrived, on the runtime's clock
}

type argumentState uint8

const (
	argumentHere argumentState = iota
	argumentWanted
	argumentComing // it is being decoded
	argumentPulled // it is an object, which is being fetched
)

// inboundRecord is the record of a call from another node.
type inboundRecord struct {
	inboundCall
	call // the last: see there
}

// Limit is not known here: the caller's node has it.
func (a *inboundRecord) Limit() time.Duration { return 0 }

// Stopped implements core.Stoppable: nothing of the call is elsewhere.
func (a *inboundRecord) Stopped() {}

// methodVariants is what a method is to calls from other nodes: one method value for each combination of what handles
// declare. The function table's Entry has it.
type methodVariants [8]*method

// variantFlags are those of a call's flags that choose the variant.
const variantFlags = flagReadOnly | flagReentrant | flagExact

func newVariants(m *method) *methodVariants {
	r := &methodVariants{}
	for i := range r {
		v := *m
		v.readOnly, v.reentrant = uint32(i)&flagReadOnly != 0, uint32(i)&flagReentrant != 0
		if uint32(i)&flagExact != 0 {
			v.opts.Deadline = time.Nanosecond // any but 0: the call's own is in its record
		}
		r[i] = &v
	}
	return r
}

// newInbound makes the record of a call.
func (r *methodVariants) newInbound(head *callHead, up *core.Turn) (*inboundCall, *kind) {
	m := r[head.flags&variantFlags]
	a := (*inboundRecord)(m.records(callIn))
	a.method, a.mail.msg = m, &a.call
	a.Future.Init(a, up, head.seq, m.value.Gated())
	a.inboundCall.call, a.result = &a.call, m.res
	return &a.inboundCall, m.kind
}

func (r *methodVariants) of() *kind { return r[0].kind }

// maxLeft bounds a deadline that another node names, so that no sum overflows.
const maxLeft = 10 * 365 * 24 * time.Hour

func (v *inboundCall) record() *call  { return v.call }
func (v *inboundCall) name() string   { return v.call.Name() }
func (v *inboundCall) fail(err error) { v.call.Future.Fail(err) }

// nodeCloses reports whether the call ends because this node does.
func (v *inboundCall) nodeCloses() bool {
	return errors.Is(v.call.Future.Up().Cancelled(), raysys.ErrClosed)
}

// deliver gives the call to its grain, if that is here under the token that the caller knows.
func (v *inboundCall) deliver() {
	if v.call.Future.Settled() {
		return
	}
	k := v.kind
	if k.def.Stateless {
		if !k.engine.cfg.Hosts || k.unfit != nil || k.engine.draining.Load() || k.engine.closed.Load() {
			v.refuse(graindir.Place{})
			return
		}
		if err := k.pooled(v.key, v.call); err != nil {
			v.fail(fmt.Errorf("call %s: %w", v.name(), err))
		}
		return
	}
	target := v.target
	v.target = nil
	for {
		if k.engine.closed.Load() {
			v.refuse(graindir.Place{})
			return
		}
		if target != nil && v.handTo(target) {
			return
		}
		target = nil
		a, r := k.lookup(v.key)
		if a == nil && r == nil {
			a, r = k.routeFor(v.key)
		}
		if a != nil {
			if v.handTo(a) {
				return
			}
			continue
		}
		if r.arrive(v) {
			return
		}
	}
}

// handTo gives the call to an activation; false when that has closed.
func (v *inboundCall) handTo(a *activation) bool {
	switch token := a.tenure.token; {
	case token.Newer(v.token):
		v.refuse(graindir.Place{NodeKey: a.kind.engine.cfg.Cluster.Self(), Token: token})
		return true
	case v.token.Newer(token):
		// Only the registry makes tokens, so this activation is no longer the grain. The call waits behind its end.
		a.tenure.goStale()
	}
	ok, err := a.accept(v.call, &v.call.mail)
	switch {
	case errors.Is(err, raysys.ErrClosed):
		v.refuse(graindir.Place{})
	case err != nil:
		v.fail(fmt.Errorf("call %s: %w", v.name(), err))
	}
	return ok
}

// refuse answers that the call did not run, since the grain, or room for a worker of a stateless kind, is at p or nowhere known.
func (v *inboundCall) refuse(p graindir.Place) {
	if v.answered.CompareAndSwap(false, true) {
		buf := takeBuffer()
		*buf = appendPlace(appendAnswer(*buf, v.slot, statusMoved), p)
		v.peer.reply(v.slot, *buf)
		giveBuffer(buf)
	}
	v.call.Future.Cancel(raysys.ErrCancelled) // it has no waiter on this node
}
