package system

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// peer is one incarnation of another node while the link to it holds. It implements wire.Peer.
type peer struct {
	c         *cluster
	link      *link.Peer
	key       nodeKey
	numbers   map[*core.Entry]uint32 // under which the peer knows this node's functions
	kinds     map[string]bool        // "task x", "grain y": what the peer can run, in its namespace
	namespace string
	scopes    wire.Scopes
	turns     wire.Turns
	calls     mesh.Calls

	declared []uint64    // by KindHeld, so far; used by the goroutine that reads
	holed    atomic.Bool // frames were lost; see framesLost
}

// newPeer reads what the other side told in the handshake.
func newPeer(c *cluster, l *link.Peer) *peer {
	id := l.Identity()
	p := &peer{
		c: c, link: l, key: nodeKey{Node: id.Node, Incarnation: id.Incarnation},
		numbers: map[*core.Entry]uint32{}, kinds: map[string]bool{}, namespace: id.Namespace,
	}
	p.scopes.Send = p.Send
	p.calls.Start(p, c.later)
	p.turns.Job = c.job
	for i, f := range id.Functions {
		p.kinds[f.Kind+" "+f.Name] = true
		if p.foreign() {
			continue // it has functions of the same names, and none of them are these
		}
		// Differing types are as good as a missing function (rule C4).
		if e := c.node.cfg.Table.Lookup(f.Kind, f.Name); e != nil && e.Fingerprint == f.Fingerprint {
			p.numbers[e] = uint32(i)
		}
	}
	return p
}

// foreign reports whether the peer runs another program (rule C2). It leads shards for this one's grains and knows where they
// are, but neither calls the other's functions.
func (p *peer) foreign() bool { return p.namespace != p.c.node.cfg.Namespace }

// Node implements wire.Peer.
func (p *peer) Node() raysys.NodeID { return p.key.Node }

// Incarnation implements wire.Peer.
func (p *peer) Incarnation() uint64 { return p.key.Incarnation }

// Runs implements wire.Peer.
func (p *peer) Runs(e *core.Entry) (uint32, bool) {
	n, ok := p.numbers[e]
	return n, ok
}

// Entry implements wire.Peer.
func (p *peer) Entry(number uint32) *core.Entry {
	if p.foreign() || int(number) >= len(p.c.entries) {
		return nil
	}
	return p.c.entries[number]
}

// Send implements wire.Peer.
func (p *peer) Send(class wire.Class, kind wire.Kind, payload []byte) error {
	if list := kind.List(); list != 0 && len(payload) <= wire.ItemLimit {
		return p.told(p.link.SendItem(link.Class(class), link.Kind(list), payload))
	}
	return p.told(p.link.Send(link.Class(class), link.Kind(kind), payload))
}

// SendLarge implements wire.Peer.
func (p *peer) SendLarge(kind wire.Kind, payload []byte) error {
	return p.told(p.link.SendBulk(link.Kind(kind), payload))
}

// told turns the link's errors into those of the vocabulary.
func (p *peer) told(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raysys.ErrOverloaded):
		return fmt.Errorf("%w: too much waits for node %s: %w", raysys.ErrOverloaded, p.key.Node, err)
	}
	return fmt.Errorf("%w: node %s: %w", raysys.ErrNotDelivered, p.key, err)
}

// Unregistered implements wire.Reporter: one line for each type.
func (p *peer) Unregistered(t reflect.Type) {
	if _, told := p.c.unregistered.LoadOrStore(t, true); told {
		return
	}
	p.c.log.Warn("an error of an unregistered type went to another node as its text: register the type with raysys.Register, or its sentinel with raysys.RegisterError",
		zap.String("type", t.String()), zap.String("call", fmt.Sprintf("raysys.Register[%s](%q)", t, strings.TrimLeft(t.String(), "*"))))
}

// Flush implements wire.Peer.
func (p *peer) Flush() { p.link.Flush() }

// Cork implements wire.Peer.
func (p *peer) Cork() { p.link.Cork() }

// Uncork implements wire.Peer.
func (p *peer) Uncork(flush bool) { p.link.Uncork(flush) }

// Open implements wire.Peer.
func (p *peer) Open(t *core.Turn) (uint32, error) { return p.scopes.Open(t) }

// Shut implements wire.Peer.
func (p *peer) Shut(scope uint32) { p.scopes.Shut(scope) }

// Turn implements wire.Peer.
func (p *peer) Turn(scope uint32) *core.Turn { return p.turns.Turn(scope) }

// ask sends a request to the leader of a shard.
func (p *peer) ask(shard int, q *request) {
	mesh.Ask(&p.calls, wire.Requests, wire.KindRegistry, func(dst []byte) []byte {
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
	q.from, q.guest = p.key, true
	q.answer = func(a answer) {
		if errors.Is(a.err, raysys.ErrClosed) || errors.Is(a.err, raysys.ErrFenced) {
			a = answer{retry: true} // it is this node that ends, before it did anything: another will lead
		}
		to.Send(a.append(to.Head(), q.op))
	}
	p.c.reg.received(int(shard), q)
	return nil
}

// down ends everything that waits for the peer.
func (p *peer) down(cause error) {
	p.scopes.Close(fmt.Errorf("%w: node %s: %w", raysys.ErrNotDelivered, p.key, cause))
	p.turns.Close(fmt.Errorf("%w: the node %s that submitted it is gone: %w", raysys.ErrCancelled, p.key, cause))
	p.calls.Close(fmt.Errorf("node %s went away: %w", p.key, cause))
}
