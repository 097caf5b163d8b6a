package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// directEvery is how often a relayed pair tries to talk directly again.
const directEvery = 2 * time.Second

// errPairBroken: others hear the node, this one does not.
var errPairBroken = errors.New("the direct connection is silent, though other nodes hear the node")

// suspected is called by the link when a peer fell silent, or is heard again.
func (c *cluster) suspected(l *link.Peer, silent bool) {
	v, ok := c.byLink.Load(l)
	if !ok || !silent {
		return
	}
	p := v.(*peer)
	c.run(func() { c.reroute(p) })
}

// reroute gives up the connection to a silent node once another node says that it hears it: then the two are alive and only
// the way between them is broken, and dial finds a way through a third. A node that nobody hears is left to its lease.
func (c *cluster) reroute(p *peer) {
	for c.peer(p.key) == p && p.link.Silence() >= c.times.silent {
		for _, q := range c.connected() {
			if q == p || q.link.Relayed() {
				continue
			}
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			heard, err := c.question(ctx, q, asksHeard, p.key)
			cancel()
			if err == nil && heard {
				c.log.Info("pair broken", zap.Stringer("peer", p.key), zap.String("heard by", string(q.key.node)))
				p.link.Close(fmt.Errorf("%w: %w", link.ErrUnreachable, errPairBroken))
				return
			}
		}
		if !c.pause(c.times.silent) {
			return
		}
	}
}

// improve replaces a relayed connection by a direct one as soon as that is possible.
func (c *cluster) improve(p *peer) {
	for c.pause(directEvery) && c.peer(p.key) == p {
		ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
		addr, err := c.address(ctx, p.key)
		if err == nil {
			_, err = c.link.Connect(ctx, p.key.node, addr)
		}
		cancel()
		if err == nil || errors.Is(err, raysys.ErrNodeDead) {
			return // the link ends the relayed one
		}
	}
}

// What is asked of another node about a third. The numbers are on the wire.
const (
	asksVote  byte = 0 // whether it agrees that the node is silent, for an eviction
	asksHeard byte = 1 // whether it has heard the node lately
)

// question asks another node about a third.
func (c *cluster) question(ctx context.Context, p *peer, what byte, about nodeKey) (bool, error) {
	answer := make(chan bool, 1)
	slot, ok := p.votes.Put(answer)
	if !ok {
		return false, raysys.ErrNotDelivered
	}
	frame := append(wire.AppendUvarint(nil, slot), what)
	frame = wire.AppendUvarint(wire.AppendBytes(frame, about.node), about.incarnation)
	if err := p.Send(wire.Control, wire.KindBallot, frame); err != nil {
		p.votes.Take(slot)
		return false, err
	}
	p.Flush()
	select {
	case v, ok := <-answer:
		if !ok {
			return false, fmt.Errorf("%w: node %s", raysys.ErrNotDelivered, p.key)
		}
		return v, nil
	case <-ctx.Done():
		p.votes.Take(slot)
		return false, context.Cause(ctx)
	}
}

// onBallot handles KindBallot.
func (p *peer) onBallot(frame []byte) error {
	r := wire.NewReader(frame)
	slot, what := r.Uvarint(), r.Byte()
	about := nodeKey{node: raysys.NodeID(r.String()), incarnation: r.Uvarint()}
	if err := r.Err(); err != nil {
		return err
	}
	yes := false
	switch what {
	case asksVote:
		yes = p.c.member.Ballot(about.node, about.incarnation)
	case asksHeard:
		q := p.c.peer(about)
		yes = q != nil && !q.link.Relayed() && q.link.Silence() < p.c.times.silent
	}
	reply := append(wire.AppendUvarint(nil, slot), 0)
	if yes {
		reply[len(reply)-1] = 1
	}
	err := p.Send(wire.Control, wire.KindBallotReply, reply)
	p.Flush()
	if errors.Is(err, raysys.ErrNotDelivered) {
		return nil
	}
	return err
}

// onVote handles KindBallotReply.
func (p *peer) onVote(frame []byte) error {
	r := wire.NewReader(frame)
	slot, yes := r.Uvarint(), r.Byte() == 1
	if err := r.Err(); err != nil {
		return err
	}
	if ch, ok := p.votes.Take(slot); ok {
		ch <- yes
	}
	return nil
}
