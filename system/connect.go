package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
)

// dialTimeout bounds one attempt to reach a node; its lease bounds all of them.
const dialTimeout = 2 * time.Second

// peer returns the connection to an incarnation, nil when there is none now.
func (c *cluster) peer(k nodeKey) *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[k.Node]; p != nil && p.key == k {
		return p
	}
	return nil
}

// connect calls done with the connection to an incarnation, which is dialled if need be. The error matches
// raysys.ErrNodeDead when the incarnation is not in the cluster, and raysys.ErrUnreachable when it cannot be reached.
func (c *cluster) connect(k nodeKey, done func(*peer, error)) {
	c.mu.Lock()
	if p := c.peers[k.Node]; p != nil && p.key == k {
		c.mu.Unlock()
		done(p, nil)
		return
	}
	if !c.aliveLocked(k) || c.ended != nil {
		err := c.ended
		c.mu.Unlock()
		if err == nil {
			err = fmt.Errorf("%w: %s", raysys.ErrNodeDead, k)
		}
		done(nil, err)
		return
	}
	first := len(c.waiting[k]) == 0
	c.waiting[k] = append(c.waiting[k], done)
	c.mu.Unlock()
	if first {
		c.run(func() { c.dial(k) })
	}
}

// arrived tells those who wait for a connection to k.
func (c *cluster) arrived(k nodeKey, p *peer, err error) {
	c.mu.Lock()
	list := c.waiting[k]
	delete(c.waiting, k)
	c.mu.Unlock()
	for _, done := range list {
		done(p, err)
	}
}

// dial tries to reach k until it is reached, or dead, or the attempts are used up. One that does
// not answer is relayed through a third where that is possible; one that refuses is dead or about to listen.
func (c *cluster) dial(k nodeKey) {
	pause := 20 * time.Millisecond
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
		addr, err := c.address(ctx, k)
		if errors.Is(err, raysys.ErrNodeDead) {
			cancel()
			c.arrived(k, nil, err)
			return
		}
		if err == nil {
			_, err = c.link.Connect(ctx, k.Node, addr)
		}
		cancel()
		if errors.Is(err, link.ErrUnreachable) {
			err = c.dialVia(k, err)
		}
		switch {
		case err == nil:
			// Up has told, or the node there is another incarnation.
			if p := c.peer(k); p != nil {
				c.arrived(k, p, nil)
				return
			}
		case c.ctx.Err() != nil:
			c.arrived(k, nil, raysys.ErrClosed)
			return
		}
		c.mu.Lock()
		if c.failed[k] = err; !c.aliveLocked(k) {
			delete(c.failed, k)
		}
		c.mu.Unlock()
		if try >= 6 {
			c.log.Warn("node unreachable", zap.Stringer("peer", k), zap.Error(err))
			c.arrived(k, nil, fmt.Errorf("%w: %s: %w", raysys.ErrUnreachable, k, err))
			return
		}
		if !c.pause(pause) {
			c.arrived(k, nil, raysys.ErrClosed)
			return
		}
		pause *= 2
	}
}

// pause waits for d; false when the cluster ends first.
func (c *cluster) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// dialVia reaches k through another node that both can talk to.
func (c *cluster) dialVia(k nodeKey, cause error) error {
	for _, p := range c.connected() {
		if p.key.Node == k.Node || p.link.Relayed() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
		_, err := c.link.ConnectVia(ctx, k.Node, p.link)
		cancel()
		if err == nil {
			c.log.Info("connection relayed", zap.Stringer("peer", k), zap.String("through", string(p.key.Node)))
			return nil
		}
	}
	return cause
}

// connected lists the peers.
func (c *cluster) connected() []*peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*peer, 0, len(c.peers))
	for _, p := range c.peers {
		list = append(list, p)
	}
	return list
}

// up is called by the link with a new connection, before any frame of it.
func (c *cluster) up(l *link.Peer) {
	p := newPeer(c, l)
	c.byLink.Store(l, p)
	c.exports.anew(p)
	c.ledger.declare(p)
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		l.Close(errors.New("the node is closing"))
		return
	}
	c.peers[p.key.Node] = p
	delete(c.heard, p.key.Node)
	delete(c.failed, p.key)
	c.gen++
	c.mu.Unlock()
	c.log.Debug("peer up", zap.Stringer("peer", p.key))
	c.node.tasks.PeerUp(p, c.taskInfo(p))
	c.node.grains.PeerUp(p)
	c.arrived(p.key, p, nil)
	c.reg.retryAll()
	c.member.Linked()
	c.poke() // a shard may have waited for a session with its preferred leader
	if l.Relayed() {
		c.run(func() { c.improve(p) })
	}
}

// down is called by the link after the last frame of a connection.
func (c *cluster) down(l *link.Peer, cause error) {
	v, ok := c.byLink.LoadAndDelete(l)
	if !ok {
		return
	}
	p := v.(*peer)
	c.mu.Lock()
	if c.peers[p.key.Node] == p {
		delete(c.peers, p.key.Node)
		c.heard[p.key.Node] = time.Now().Add(-l.Silence())
	}
	c.gen++
	ended := c.ended != nil
	c.mu.Unlock()
	c.log.Debug("peer down", zap.Stringer("peer", p.key), zap.Error(cause))
	p.down(cause)
	c.node.tasks.PeerDown(p, cause)
	c.node.grains.PeerDown(p, cause)
	c.objects.engine.PeerDown(transferKey(p.key), cause)
	if ended {
		return
	}
	// Either its process died, which a refused redial proves (rule C17), or the network did.
	if errors.Is(cause, link.ErrReset) {
		c.member.LinkReset(p.key.Node, p.key.Incarnation)
	}
	if !errors.Is(cause, link.ErrLeft) {
		c.connect(p.key, func(*peer, error) {})
	}
}
