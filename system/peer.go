package system

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// peer is one incarnation of another node while the link to it holds. It implements wire.Peer.
type peer struct {
	c         *cluster
	link      *link.Peer
	key       nodeKey
	numbers   map[*raysys.Entry]uint32 // under which the peer knows this node's functions
	kinds     map[string]bool          // "task x", "grain y": what the peer can run, in its namespace
	namespace string
	scopes    wire.Scopes
	turns     wire.Turns
	awaits    wire.Slots[*await]
	asked     wire.Slots[*asked]
	admins    wire.Slots[func(adminAnswer, error)]
	keeps     wire.Slots[func(keepAnswer, error)]
	votes     wire.Slots[chan bool] // each of capacity 1; closed by down
	borrows   wire.Slots[*loan]
	probes    wire.Slots[chan probeAnswer] // each of capacity 1

	declared []uint64    // by KindHeld, so far; used by the goroutine that reads
	holed    atomic.Bool // frames were lost; see framesLost
}

// newPeer reads what the other side told in the handshake.
func newPeer(c *cluster, l *link.Peer) *peer {
	id := l.Identity()
	p := &peer{
		c: c, link: l, key: nodeKey{id.Node, id.Incarnation},
		numbers: map[*raysys.Entry]uint32{}, kinds: map[string]bool{}, namespace: id.Namespace,
	}
	p.scopes.Send = p.Send
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
func (p *peer) Node() raysys.NodeID { return p.key.node }

// Incarnation implements wire.Peer.
func (p *peer) Incarnation() uint64 { return p.key.incarnation }

// Runs implements wire.Peer.
func (p *peer) Runs(e *raysys.Entry) (uint32, bool) {
	n, ok := p.numbers[e]
	return n, ok
}

// Entry implements wire.Peer.
func (p *peer) Entry(number uint32) *raysys.Entry {
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
		return fmt.Errorf("%w: too much waits for node %s: %w", raysys.ErrOverloaded, p.key.node, err)
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
func (p *peer) Open(t *raysys.Turn) (uint32, error) { return p.scopes.Open(t) }

// Shut implements wire.Peer.
func (p *peer) Shut(scope uint32) { p.scopes.Shut(scope) }

// Turn implements wire.Peer.
func (p *peer) Turn(scope uint32) *raysys.Turn { return p.turns.Turn(scope) }

// asked is a request to a leader that has not answered.
type asked struct {
	shard int
	q     *request
}

// ask sends a request to the leader of a shard.
func (p *peer) ask(shard int, q *request) {
	slot, ok := p.asked.Put(&asked{shard, q})
	if !ok {
		p.c.reg.park(shard, q)
		return
	}
	frame := wire.AppendUvarint(wire.AppendUvarint(nil, slot), uint64(shard))
	frame = q.append(frame)
	var err error
	if len(frame) > wire.InlineLimit {
		err = p.SendLarge(wire.KindRegistry, frame)
	} else {
		err = p.Send(wire.Requests, wire.KindRegistry, frame)
	}
	if err != nil {
		if _, ok := p.asked.Take(slot); ok {
			p.c.reg.park(shard, q)
		}
		return
	}
	p.Flush()
}

// onRegistry handles KindRegistry: the peer takes this node for the leader.
func (p *peer) onRegistry(frame []byte) error {
	r := wire.NewReader(frame)
	slot, shard := r.Uvarint(), r.Uint32()
	q, err := readRequest(&r)
	if err != nil {
		return err
	}
	q.from, q.guest = p.key, true
	q.answer = func(a answer) {
		if errors.Is(a.err, raysys.ErrClosed) || errors.Is(a.err, raysys.ErrFenced) {
			a = answer{retry: true} // it is this node that ends, before it did anything: another will lead
		}
		out := a.append(wire.AppendUvarint(nil, slot), q.op)
		if err := p.reply(wire.KindRegistered, out); errors.Is(err, raysys.ErrTooLarge) { // of states, which no frame holds
			out = answer{err: err}.append(wire.AppendUvarint(nil, slot), q.op)
			_ = p.reply(wire.KindRegistered, out)
		} // a peer that is gone asks the next leader
	}
	p.c.reg.received(int(shard), q)
	return nil
}

// onRegistered handles KindRegistered.
func (p *peer) onRegistered(frame []byte) error {
	r := wire.NewReader(frame)
	slot := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	a, ok := p.asked.Take(slot)
	if !ok {
		return nil
	}
	ans := readAnswer(&r, a.q.op)
	p.c.reg.answered(a.shard, a.q, ans)
	if errors.Is(ans.err, wire.ErrCorrupt) {
		return ans.err
	}
	return nil
}

// down ends everything that waits for the peer.
func (p *peer) down(cause error) {
	p.scopes.Close(fmt.Errorf("%w: node %s: %w", raysys.ErrNotDelivered, p.key, cause))
	p.turns.Close(fmt.Errorf("%w: the node %s that submitted it is gone: %w", raysys.ErrCancelled, p.key, cause))
	for _, a := range p.asked.Drain() {
		if a.q.op == opSave { // it may have been committed, and is read back by who asked
			a.q.answer(answer{err: fmt.Errorf("%w: the leader %s went away: %w", raysys.ErrOutcomeUnknown, p.key, cause)})
			continue
		}
		p.c.reg.park(a.shard, a.q)
	}
	for _, vote := range p.votes.Drain() {
		close(vote)
	}
	for _, done := range p.admins.Drain() {
		done(adminAnswer{}, fmt.Errorf("%w: node %s: %w", raysys.ErrOutcomeUnknown, p.key, cause))
	}
	for _, done := range p.keeps.Drain() {
		done(keepAnswer{}, fmt.Errorf("%w: node %s: %w", raysys.ErrOutcomeUnknown, p.key, cause))
	}
	for _, answer := range p.probes.Drain() {
		answer <- probeAnswer{}
	}
	for _, a := range p.awaits.Drain() {
		a.lost(p)
	}
	for _, l := range p.borrows.Drain() {
		p.c.borrow(l)
	}
}
