package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/mesh"
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
				c.log.Info("pair broken", zap.Stringer("peer", p.key), zap.String("heard by", string(q.key.Node)))
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
			_, err = c.link.Connect(ctx, p.key.Node, addr)
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
	return waitFor(ctx, func(done func(bool, error)) {
		mesh.Ask(&p.calls, wire.Control, wire.KindBallot, func(dst []byte) []byte {
			return appendNode(append(dst, what), about)
		}, func(r *wire.Reader) (bool, error) { return r.Byte() == 1, nil }, done)
	})
}

// onBallot serves KindBallot.
func (p *peer) onBallot(r *wire.Reader, to mesh.Reply) error {
	what, about := r.Byte(), readNode(r)
	if err := r.Err(); err != nil {
		return err
	}
	yes := false
	switch what {
	case asksVote:
		yes = p.c.member.Ballot(about.Node, about.Incarnation)
	case asksHeard:
		q := p.c.peer(about)
		yes = q != nil && !q.link.Relayed() && q.link.Silence() < p.c.times.silent
	}
	answer := byte(0)
	if yes {
		answer = 1
	}
	to.Send(append(to.Head(), answer))
	return nil
}
