package system

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/wire"
)

// peer is one incarnation of another node while the connection to it holds, with the references between the two. It
// implements wire.Peer.
type peer struct {
	*refs.Session
	c *cluster
}

// of returns what this node keeps for a connection.
func of(p *mesh.Peer) *peer { return p.Session.(*peer) }

// ask sends a request to the leader of a shard.
func (p *peer) ask(shard int, q *request) {
	mesh.Ask(&p.Calls, wire.Requests, wire.KindRegistry, func(dst []byte) []byte {
		return q.append(wire.AppendUvarint(dst, uint64(shard)))
	}, func(r *wire.Reader) (answer, error) {
		a := readAnswer(r, q.op)
		if errors.Is(a.err, wire.ErrCorrupt) {
			return a, a.err
		}
		return a, nil
	}, func(a answer, err error) {
		switch {
		case err == nil:
			p.c.reg.answered(shard, q, a)
		case mesh.Undelivered(err), mesh.Unknown(err) && q.op != opSave: // what may be done twice
			p.c.reg.park(shard, q)
		default: // a Save may have been committed, and is read back by who asked
			q.answer(answer{err: fmt.Errorf("the leader of shard %d: %w", shard, err)})
		}
	})
}

// onRegistry serves KindRegistry: the peer takes this node for the leader.
func (p *peer) onRegistry(r *wire.Reader, to mesh.Reply) error {
	shard := r.Uint32()
	q, err := readRequest(r)
	if err != nil {
		return err
	}
	q.from, q.inbound = p.Key(), true
	q.answer = func(a answer) {
		if errors.Is(a.err, raysys.ErrClosed) || errors.Is(a.err, raysys.ErrFenced) {
			a = answer{retry: true} // it is this node that ends, before it did anything: another will lead
		}
		to.Send(a.append(to.Head(), q.op))
	}
	p.c.reg.received(int(shard), q)
	return nil
}
