package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system/link"
	"github.com/raysys/raysys/system/member"
)

// The cluster answers what the membership asks of the links: member.Prober and member.Ballots.

// Silence implements member.Prober.
func (c *cluster) Silence(node raysys.NodeID) (time.Duration, bool) {
	c.mu.Lock()
	p := c.peers[node]
	last := c.heard[node]
	c.mu.Unlock()
	if p != nil {
		return p.link.Silence(), true
	}
	if last.IsZero() {
		return 0, false
	}
	return time.Since(last), false
}

// Relayed implements member.Prober.
func (c *cluster) Relayed(node raysys.NodeID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[node]
	return p != nil && p.link.Relayed()
}

// Redial implements member.Prober.
func (c *cluster) Redial(ctx context.Context, n member.Node) error {
	_, err := c.link.Connect(ctx, n.ID, n.Address)
	if errors.Is(err, link.ErrRefused) {
		return fmt.Errorf("%w: %w", member.ErrNotListening, err)
	}
	return err
}

// Ask implements member.Ballots.
func (c *cluster) Ask(ctx context.Context, monitor, victim raysys.NodeID, incarnation uint64) (bool, error) {
	n, ok := c.member.View().Node(monitor)
	if !ok {
		return false, fmt.Errorf("%w: %s", raysys.ErrNodeDead, monitor)
	}
	p := c.peer(nodeKey{n.ID, n.Incarnation})
	if p == nil {
		return false, fmt.Errorf("%w: monitor %s", raysys.ErrUnreachable, monitor)
	}
	vote := make(chan bool, 1)
	slot, ok := p.votes.Put(vote)
	if !ok {
		return false, raysys.ErrNotDelivered
	}
	frame := wire.AppendBytes(wire.AppendUvarint(nil, slot), victim)
	if err := p.Send(wire.Control, wire.KindBallot, wire.AppendUvarint(frame, incarnation)); err != nil {
		p.votes.Take(slot)
		return false, err
	}
	p.Flush()
	select {
	case v, ok := <-vote:
		if !ok {
			return false, fmt.Errorf("%w: monitor %s", raysys.ErrNotDelivered, monitor)
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
	slot, victim, incarnation := r.Uvarint(), raysys.NodeID(r.String()), r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	vote := byte(0)
	if p.c.member.Ballot(victim, incarnation) {
		vote = 1
	}
	err := p.Send(wire.Control, wire.KindBallotReply, append(wire.AppendUvarint(nil, slot), vote))
	p.Flush()
	if errors.Is(err, raysys.ErrNotDelivered) {
		return nil
	}
	return err
}

// onVote handles KindBallotReply.
func (p *peer) onVote(frame []byte) error {
	r := wire.NewReader(frame)
	slot, vote := r.Uvarint(), r.Byte()
	if err := r.Err(); err != nil {
		return err
	}
	if ch, ok := p.votes.Take(slot); ok {
		ch <- vote == 1
	}
	return nil
}
