package remote

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// The body of a message to an actor of another node goes over the bulk connection where no frame of the express one holds it. Frames
// have no order there, so the message's head keeps its place among what the peer sends:
//
//	sender                                   receiver
//	small ── head ── small ───────────────►  small  to the actor
//	keeps the body                           head   opens a line for the actor, and asks for the body
//	                                         small  into the line, since it is for the same actor
//	the body  ◄────────── KindActorBody ──
//	          ────────── bulk ────────────►  the whole message to the actor, then the line
//
// Nothing is sent unasked, so neither side keeps a body that the other side does not expect. Where the connection ends before the body
// has come, its sender hears of a dead letter, and the line moves on without that message.

const (
	// maxMessage is how many bytes a message to an actor of another node has at most, encoded. It is the bound of gRPC.
	maxMessage = wire.ValueLimit
	// maxBodies is how many bytes of bodies one peer may leave unasked, as many as the link's queue of requests holds. Messages
	// beyond are refused, as those are.
	maxBodies = 64 << 20
)

// bodies are those of messages whose heads were sent, until the receiver asks for them.
type bodies struct {
	mu   sync.Mutex // guards the rest
	last uint64
	m    map[uint64]body
}

type body struct {
	to   *mesh.Peer
	data []byte
	lost func() // is called where the connection ends before the receiver asks
}

// send sends a message, which frame would be, as a head. After an error the receiver gets nothing, and lost is not called.
func (b *bodies) send(to *mesh.Peer, frame []byte, lost func()) error {
	b.mu.Lock()
	b.last++
	number := b.last
	head, data := cutBody(frame, number)
	waiting := 0
	for _, o := range b.m {
		if o.to == to {
			waiting += len(o.data)
		}
	}
	if waiting > 0 && waiting+len(data) > maxBodies {
		b.mu.Unlock()
		return fmt.Errorf("%w: %d bytes of large messages wait for node %s", raysys.ErrOverloaded, waiting, to.Node())
	}
	if b.m == nil {
		b.m = map[uint64]body{}
	}
	b.m[number] = body{to, data, lost}
	b.mu.Unlock()
	err := to.Send(wire.Requests, wire.KindActor, head)
	if err != nil {
		if _, ok := b.take(to, number); !ok {
			return nil // down has called lost
		}
	}
	return err
}

// cutBody takes a frame of a message apart: a number stands for the body in its head.
func cutBody(frame []byte, number uint64) (head, data []byte) {
	r := wire.NewReader(frame)
	readAddressed(&r)
	head = append(head, frame[:len(frame)-r.Len()]...)
	form, name, data := r.Byte(), r.Bytes(), r.Bytes()
	head = wire.AppendBytes(append(head, formHead), name)
	head = wire.AppendBytes(head, wire.AppendUvarint([]byte{form}, number))
	return append(head, r.Rest()...), data
}

// take returns the body with a number, once, to the peer that it is for.
func (b *bodies) take(p *mesh.Peer, number uint64) (data []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.m[number]
	if !ok || o.to != p {
		return nil, false
	}
	delete(b.m, number)
	return o.data, true
}

// serve handles KindActorBody.
func (b *bodies) serve(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	data, ok := b.take(p, number)
	if !ok {
		to.Fail(fmt.Errorf("%w: the body of message %d", raysys.ErrNotFound, number))
		return nil
	}
	to.Send(append(to.Head(), data...))
	return nil
}

// down is called when a connection is over.
func (b *bodies) down(p *mesh.Peer) {
	var lost []func()
	b.mu.Lock()
	for number, o := range b.m {
		if o.to == p {
			delete(b.m, number)
			lost = append(lost, o.lost)
		}
	}
	b.mu.Unlock()
	for _, f := range lost {
		f()
	}
}
