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

// maxEarly bounds the remembered cancellations of calls that have not arrived; a well-behaved peer has few on the way.
const maxEarly = 1024

// farPeer is one incarnation of another node as this engine sees it.
type farPeer struct {
	wire.Peer
	engine *Engine
	sent   wire.Slots[*outgoing] // calls that it has not answered
	gone   atomic.Bool

	mu      sync.Mutex          // guards the rest
	inbound []*inboundCall      // its calls that are not settled here, by the low half of its number for them
	early   map[uint64]struct{} // cancelled before they came: control frames overtake requests
	holds   map[holdKey]*hold

	exports sync.Pool // of wire.PendingExports
}

// lends returns what notes the references of a call, for one at a time.
func (p *farPeer) lends() wire.PendingExports {
	if l, ok := p.exports.Get().(wire.PendingExports); ok {
		return l
	}
	return wire.PendingExportsOf(p.Peer)
}

// PeerUp tells the engine of a node that it may call and that may call it. Each incarnation of a node is a Peer of its
// own. It comes before any frame of the peer, and before Cluster.Peer returns it.
func (e *Engine) PeerUp(p wire.Peer) {
	e.peers.LoadOrStore(p, &farPeer{Peer: p, engine: e})
}

// PeerDown tells the engine that the peer, or the way to it, is gone; cause says why. Calls that were sent and not
// answered are repeated where their method is Idempotent and else fail with raysys.ErrOutcomeUnknown (rule C8). Calls
// that did not leave follow their grain. No frame of the peer may be handed over after it, and the peer's Send fails.
func (e *Engine) PeerDown(p wire.Peer, cause error) {
	v, ok := e.peers.LoadAndDelete(p)
	if !ok {
		return
	}
	fp := v.(*farPeer)
	fp.gone.Store(true)
	e.kinds.Range(func(_, k any) bool {
		k.(*boundKind).forgetPeer(fp)
		return true
	})
	for _, o := range fp.sent.Drain() {
		o.lose(fp, cause)
	}
	fp.dropInbound(cause)
}

// farPeer finds what PeerUp made; nil when p is nil or gone.
func (e *Engine) farPeer(p wire.Peer) *farPeer {
	if p == nil {
		return nil
	}
	if v, ok := e.peers.Load(p); ok {
		return v.(*farPeer)
	}
	return nil
}

// Receive handles a frame of kind wire.KindCall, KindCallResult or KindCallCancel, or a list of calls or results.
// Frames of one class come in the order they were sent. It does not block and keeps nothing of frame. An error means
// that the peer breaks the rules: the link is to be closed.
func (e *Engine) Receive(p wire.Peer, kind wire.Kind, frame []byte) error {
	fp := e.farPeer(p)
	if fp == nil {
		return nil // it went this moment
	}
	var err error
	switch kind {
	case wire.KindCalls:
		err = fp.calledAll(frame)
	case wire.KindCallResults:
		err = fp.answeredAll(frame)
	default:
		r := wire.NewReader(frame)
		switch kind {
		case wire.KindCall:
			err = fp.called(&r)
		case wire.KindCallResult:
			err = fp.answered(&r)
		case wire.KindCallCancel:
			err = fp.cancelled(&r)
		default:
			err = fmt.Errorf("%w: kind %d is not of grains", wire.ErrCorrupt, kind)
		}
	}
	if err != nil {
		return fmt.Errorf("grain frame of kind %d from %s: %w", kind, p.Node(), err)
	}
	return nil
}

// corrupt passes on only what condemns the link: a value of another type is the call's own trouble.
func corrupt(err error) error {
	if errors.Is(err, wire.ErrCorrupt) {
		return err
	}
	return nil
}

// cancelled handles KindCallCancel.
func (fp *farPeer) cancelled(r *wire.Reader) error {
	slot := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	fp.mu.Lock()
	v := fp.inboundLocked(slot)
	if v == nil {
		if fp.early == nil || len(fp.early) >= maxEarly {
			fp.early = map[uint64]struct{}{}
		}
		fp.early[slot] = struct{}{}
	}
	fp.mu.Unlock()
	if v != nil {
		v.call.future().Cancel(raysys.ErrCancelled)
	}
	return nil
}

// inboundLocked finds the peer's call; the caller holds mu.
func (fp *farPeer) inboundLocked(slot uint64) *inboundCall {
	i := slot & (1<<32 - 1)
	if i >= uint64(len(fp.inbound)) {
		return nil
	}
	if v := fp.inbound[i]; v != nil && v.slot == slot {
		return v
	}
	return nil
}

// leave forgets a call that has settled, and reports whether others may be held behind it.
func (fp *farPeer) leave(v *inboundCall) (held bool) {
	i := v.slot & (1<<32 - 1)
	fp.mu.Lock()
	defer fp.mu.Unlock()
	if i < uint64(len(fp.inbound)) && fp.inbound[i] == v {
		fp.inbound[i] = nil
	}
	return v.argument != argumentHere
}

// dropInbound ends the calls of a peer that is gone, so that nothing waits for an argument that cannot come.
func (fp *farPeer) dropInbound(cause error) {
	fp.mu.Lock()
	var open []*inboundCall
	for _, v := range fp.inbound {
		if v != nil {
			open = append(open, v)
		}
	}
	fp.mu.Unlock()
	for _, v := range open {
		v.call.future().Cancel(fmt.Errorf("%w: the caller's node %s is gone: %w", raysys.ErrCancelled, fp.Node(), cause))
	}
}
