package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
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
	return time.Since(last), true
}

// Relayed implements member.Prober.
func (c *cluster) Relayed(node raysys.NodeID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[node]
	return p != nil && p.link.Relayed()
}

// Linked implements member.Prober.
func (c *cluster) Linked(node raysys.NodeID, incarnation uint64) bool {
	p := c.peer(nodeKey{Node: node, Incarnation: incarnation})
	return p != nil && p.link.Silence() < c.times.silent
}

// Redial implements member.Prober.
func (c *cluster) Redial(ctx context.Context, n member.Node) error {
	name := n.ID
	if name == c.self().Node {
		// A former life of this node, or another process of the same name: the latter says so whomever it is asked for,
		// and a link does not dial itself.
		name += "?"
	}
	_, err := c.link.Connect(ctx, name, n.Address)
	if name != n.ID && errors.Is(err, link.CodeSelf) {
		return nil
	}
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
	p := c.peer(nodeKey{Node: n.ID, Incarnation: n.Incarnation})
	if p == nil {
		return false, fmt.Errorf("%w: monitor %s", raysys.ErrUnreachable, monitor)
	}
	return c.question(ctx, p, asksVote, nodeKey{Node: victim, Incarnation: incarnation})
}
