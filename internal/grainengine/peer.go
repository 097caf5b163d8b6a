package grainengine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// maxInFlight bounds the calls that one peer has not answered.
const maxInFlight = 1 << 20

// maxEarly bounds the cancellations that are kept for calls that have not arrived. Few are on the way at a time.
const maxEarly = 1024

// peer is one incarnation of another node as this engine sees it.
type peer struct {
	wire.Peer
	engine *Engine
	sent   wire.Slots[*outboundCall] // calls that it has not answered
	gone   atomic.Bool

	mu      sync.Mutex          // guards the rest
	inbound []*inboundCall      // its calls that are not settled here, by the low half of its number for them
	early   map[uint64]struct{} // cancelled before they came: control frames overtake requests
	givenUp map[uint64]struct{} // calls to it that were cancelled here, and have no answer yet
	lines   map[lineKey]*line
	pushed  pushed

	exports sync.Pool // of wire.PendingExports
}

// pendingExports returns a list for the references in one call.
func (p *peer) pendingExports() wire.PendingExports {
	if l, ok := p.exports.Get().(wire.PendingExports); ok {
		return l
	}
	return wire.PendingExportsOf(p.Peer)
}

// PeerUp adds a node that this one may call and that may call it. Each incarnation of a node is a Peer of its
// own. It comes before any frame of the peer, and before Cluster.Peer returns it.
func (e *Engine) PeerUp(p wire.Peer) {
	e.peers.LoadOrStore(p, &peer{Peer: p, engine: e})
}

// PeerDown removes a peer that is gone, or to which there is no way; cause says why. Calls that were sent and not
// answered are repeated where their method is Idempotent and else fail with raysys.ErrOutcomeUnknown (rule C8). Calls
// that did not leave follow their grain. No frame of the peer may be handed over after it, and the peer's Send fails.
func (e *Engine) PeerDown(wp wire.Peer, cause error) {
	v, ok := e.peers.LoadAndDelete(wp)
	if !ok {
		return
	}
	p := v.(*peer)
	p.gone.Store(true)
	e.kinds.Range(func(_, k any) bool {
		k.(*boundKind).forgetPeer(p)
		return true
	})
	for _, o := range p.sent.Drain() {
		o.peerLost(p, cause)
	}
	p.dropInbound(cause)
}

// peer returns what PeerUp made of p; nil when p is nil or gone.
func (e *Engine) peer(p wire.Peer) *peer {
	if p == nil {
		return nil
	}
	if v, ok := e.peers.Load(p); ok {
		return v.(*peer)
	}
	return nil
}

// Receive handles a frame of kind wire.KindCall, KindCallResult, KindCallCancel, KindCallForget or KindCallAsk, or a list of calls or results.
// Frames of one class come in the order they were sent. It does not block and keeps nothing of frame. An error means
// that the peer breaks the rules: the link is to be closed.
func (e *Engine) Receive(wp wire.Peer, kind wire.Kind, frame []byte) error {
	p := e.peer(wp)
	if p == nil {
		return nil // PeerDown came this moment
	}
	var err error
	switch kind {
	case wire.KindCalls:
		err = p.calledAll(frame)
	case wire.KindCallResults:
		err = p.answeredAll(frame)
	default:
		r := wire.NewReader(frame)
		switch kind {
		case wire.KindCall:
			err = p.called(&r)
		case wire.KindCallResult:
			err = p.answered(&r)
		case wire.KindCallCancel:
			err = p.cancelled(&r)
		case wire.KindCallForget:
			err = p.forgotten(&r)
		case wire.KindCallAsk:
			err = p.askedOpen(&r)
		default:
			err = fmt.Errorf("%w: kind %d is not of grains", wire.ErrCorrupt, kind)
		}
	}
	if err != nil {
		return fmt.Errorf("grain frame of kind %d from %s: %w", kind, wp.Node(), err)
	}
	return nil
}

// corrupt returns an err that breaks the protocol, for which the link is closed. A value of another type fails its call
// only.
func corrupt(err error) error {
	if errors.Is(err, wire.ErrCorrupt) {
		return err
	}
	return nil
}

// cancelled handles KindCallCancel.
func (p *peer) cancelled(r *wire.Reader) error {
	slot := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	v := p.inboundLocked(slot)
	if v == nil {
		if p.early == nil || len(p.early) >= maxEarly {
			p.early = map[uint64]struct{}{}
		}
		p.early[slot] = struct{}{}
	}
	p.mu.Unlock()
	if v != nil {
		v.call.Future.Cancel(raysys.ErrCancelled)
	}
	return nil
}

// inboundLocked finds the peer's call; the caller holds mu.
func (p *peer) inboundLocked(slot uint64) *inboundCall {
	i := slot & (1<<32 - 1)
	if i >= uint64(len(p.inbound)) {
		return nil
	}
	if v := p.inbound[i]; v != nil && v.slot == slot {
		return v
	}
	return nil
}

// leave forgets a call that has settled, and reports whether others may wait in a line behind it.
func (p *peer) leave(v *inboundCall) (behind bool) {
	i := v.slot & (1<<32 - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < uint64(len(p.inbound)) && p.inbound[i] == v {
		p.inbound[i] = nil
	}
	return v.argument != argumentHere
}

// dropInbound ends the calls of a peer that is gone, so that nothing waits for an argument that cannot come.
func (p *peer) dropInbound(cause error) {
	p.mu.Lock()
	var open []*inboundCall
	for _, v := range p.inbound {
		if v != nil {
			open = append(open, v)
		}
	}
	p.mu.Unlock()
	for _, v := range open {
		v.call.Future.Cancel(fmt.Errorf("%w: the caller's node %s is gone: %w", raysys.ErrCancelled, p.Node(), cause))
	}
}
