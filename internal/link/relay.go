package link

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Two nodes that cannot reach each other talk through a third (rule C17): a stream of bytes between them, carried in
// frames of their sessions with it, on which the same handshake takes place as on any connection, TLS included, so
// that the relay can neither read nor change it.
//
//	a ── open, data, more, close ──▶ relay ── the same frames ──▶ b
//
// A relay passes a stream on only between nodes with which it has direct sessions: one hop, no loops.

// maxStreams is how many one peer may have through a relay, or to a node.
const maxStreams = 64

// relays is a link's part in streams: streams that end here, and streams that it passes on.
type relays struct {
	link *Link

	mu     sync.Mutex // guards the rest; never held while something is sent
	ends   map[hop]*stream
	routes map[hop]*route
	used   map[*Peer]int // entries of a peer in both
}

// hop is a stream as one session knows it.
type hop struct {
	peer *Peer
	id   uint64
}

// route is one direction of a stream that passes through: what comes from its hop goes to next.
type route struct {
	next *Peer
	room int // bytes that may still come: what the end at next granted
}

func (r *relays) init(l *Link) {
	r.link = l
	r.ends, r.routes, r.used = map[hop]*stream{}, map[hop]*route{}, map[*Peer]int{}
}

// open begins a stream. Whether the relay passes it on shows when it is used.
func (r *relays) open(node raysys.NodeID, via *Peer) (net.Conn, error) {
	if via.relayed || via.link != r.link {
		return nil, fmt.Errorf("%w: %s is no direct peer of this node, so it cannot relay", ErrUnreachable, via)
	}
	s := newStream(via, draw(), node)
	if !r.add(s) {
		return nil, fmt.Errorf("%w: %d streams run through %s", ErrUnreachable, maxStreams, via)
	}
	o := opening{id: s.id, from: r.link.cfg.Self().Node, to: node}
	if err := via.send(wire.Replies, kindRelayOpen, o.append(nil)); err != nil {
		r.forget(s)
		return nil, fmt.Errorf("%w: relay %s: %v", ErrUnreachable, via, err)
	}
	return r.link.cfg.Transport.Secure(s, true), nil
}

// add notes a stream that ends here.
func (r *relays) add(s *stream) bool {
	h := hop{s.via, s.id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used[s.via] >= maxStreams || r.ends[h] != nil || r.routes[h] != nil || s.via.over.Load() {
		return false
	}
	r.ends[h] = s
	r.used[s.via]++
	return true
}

func (r *relays) forget(s *stream) {
	h := hop{s.via, s.id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[h] == s {
		delete(r.ends, h)
		r.release(s.via)
	}
}

// release is called with mu held.
func (r *relays) release(p *Peer) {
	r.used[p]--
	if r.used[p] == 0 {
		delete(r.used, p)
	}
}

// frame handles a frame about a stream, on the reader of the session it came over. It reports whether it knows the
// kind.
func (r *relays) frame(p *Peer, kind wire.Kind, payload []byte) (known bool, err error) {
	if kind == kindRelayOpen {
		var o opening
		if err := o.read(payload); err != nil {
			return true, err
		}
		r.opened(p, o)
		return true, nil
	}
	if kind != kindRelayData && kind != kindRelayMore && kind != kindRelayClose {
		return false, nil
	}
	if len(payload) < 8 || kind == kindRelayMore && len(payload) != 12 || kind == kindRelayClose && len(payload) < 9 {
		return true, fmt.Errorf("%w: a frame of kind %d has %d bytes", ErrCorrupt, kind, len(payload))
	}
	h := hop{p, binary.LittleEndian.Uint64(payload)}
	r.mu.Lock()
	s, next := r.ends[h], (*Peer)(nil)
	if s == nil {
		next, err = r.pass(h, kind, payload)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		return true, err
	case next != nil:
		next.send(wire.Replies, kind, payload)
	case s == nil: // it ended while this was on the way
	case kind == kindRelayData:
		return true, s.took(payload[8:])
	case kind == kindRelayMore:
		s.more(int(binary.LittleEndian.Uint32(payload[8:])))
	default:
		s.finish(ending(payload[8]), text(payload[9:]))
	}
	return true, nil
}

// pass books a frame that goes through and returns where it goes next, with mu held.
func (r *relays) pass(h hop, kind wire.Kind, payload []byte) (*Peer, error) {
	here := r.routes[h]
	if here == nil {
		return nil, nil
	}
	switch kind {
	case kindRelayData:
		// The sender keeps the window, or this node's queue for the next would grow without bound.
		if here.room -= len(payload) - 8; here.room < 0 {
			return nil, fmt.Errorf("%w: more data than the window of a relayed stream", ErrCorrupt)
		}
	case kindRelayMore:
		back := r.routes[hop{here.next, h.id}]
		if back.room += int(binary.LittleEndian.Uint32(payload[8:])); back.room > streamWindow {
			return nil, fmt.Errorf("%w: a relayed stream's window of %d bytes", ErrCorrupt, back.room)
		}
	case kindRelayClose:
		if ending(payload[8]) != endWriting {
			r.drop(h)
		}
	}
	return here.next, nil
}

// drop ends both directions of a route, with mu held.
func (r *relays) drop(h hop) {
	next := r.routes[h].next
	delete(r.routes, h)
	delete(r.routes, hop{next, h.id})
	r.release(h.peer)
	r.release(next)
}

// opened takes a stream that ends here, or finds its way.
func (r *relays) opened(p *Peer, o opening) {
	lost := func(why string) { p.send(wire.Replies, kindRelayClose, appendEnd(nil, o.id, endLost, why)) }
	own := r.link.cfg.Self().Node
	if o.to == own {
		s := newStream(p, o.id, o.from)
		if p.relayed || !r.add(s) {
			lost(fmt.Sprintf("node %s takes no more streams through %s", own, p.Node()))
			return
		}
		conn := r.link.cfg.Transport.Secure(s, false)
		r.link.take(conn, true)
		return
	}
	if o.from != p.id.Node || p.relayed {
		lost(fmt.Sprintf("node %s relays for its direct peers only", own))
		return
	}
	next := r.link.Peer(o.to)
	if next == nil || next.relayed {
		lost(fmt.Sprintf("node %s has no session with %s", own, o.to))
		return
	}
	there, back := hop{p, o.id}, hop{next, o.id}
	r.mu.Lock()
	free := r.routes[there] == nil && r.routes[back] == nil && r.ends[there] == nil && r.ends[back] == nil
	ok := free && r.used[p] < maxStreams && r.used[next] < maxStreams && !p.over.Load() && !next.over.Load() && next != p
	if ok {
		r.routes[there], r.routes[back] = &route{next, streamWindow}, &route{p, streamWindow}
		r.used[p]++
		r.used[next]++
	}
	r.mu.Unlock()
	if !ok {
		lost(fmt.Sprintf("node %s relays no more streams to %s", own, o.to))
		return
	}
	next.send(wire.Replies, kindRelayOpen, o.append(nil))
}

// gone ends the streams of a session that is over.
func (r *relays) gone(p *Peer) {
	var ends []*stream
	var others []hop
	r.mu.Lock()
	for h, s := range r.ends {
		if h.peer == p {
			ends = append(ends, s)
		}
	}
	for h, to := range r.routes {
		if h.peer == p {
			others = append(others, hop{to.next, h.id})
			r.drop(h)
		}
	}
	r.mu.Unlock()
	for _, s := range ends {
		s.finish(endLost, fmt.Sprintf("the session with it is over: %v", p.Err()))
	}
	for _, h := range others {
		h.peer.send(wire.Replies, kindRelayClose, appendEnd(nil, h.id, endLost, fmt.Sprintf("node %s lost its session with %s: %v", r.link.cfg.Self().Node, p.Node(), p.Err())))
	}
}

// ending says how an end of a stream finished. The numbers are on the wire.
type ending uint8

const (
	endWriting ending = 1 // it writes no more
	endClosed  ending = 2 // it is closed
	endLost    ending = 3 // the relay cannot reach it, and says why
)

const (
	tagStream    = 1
	tagRelayFrom = 2
	tagRelayTo   = 3
)

// opening asks for a stream.
type opening struct {
	id       uint64
	from, to raysys.NodeID
}

func (o *opening) fields() []field {
	return []field{{tagStream, &o.id}, {tagRelayFrom, (*string)(&o.from)}, {tagRelayTo, (*string)(&o.to)}}
}

func (o *opening) append(dst []byte) []byte { return appendFields(dst, o.fields()) }

func (o *opening) read(b []byte) error {
	err := readFields(b, o.fields())
	if err == nil && (o.id == 0 || o.from == "" || o.to == "") {
		err = fmt.Errorf("%w: a stream without number or ends", ErrCorrupt)
	}
	return err
}

func appendMore(dst []byte, id uint64, n int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(dst, id), uint32(n))
}

func appendEnd(dst []byte, id uint64, how ending, why string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(dst, id), byte(how)), why[:min(len(why), maxText/8)]...)
}
